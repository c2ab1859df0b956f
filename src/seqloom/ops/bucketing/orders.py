"""The orders that assign tokens to slots, and the rule which slots attend to which."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

EMPTY = 1 << 62
"""the bucket of empty slots, which sorts after every other"""


@final
@dataclass(frozen=True)
class Rule:
    """The rule which slots a slot attends to."""

    chunk: int
    """m, the slots of a chunk"""
    back: bool = True
    """whether a chunk attends to the one before it"""
    wrap: bool = False
    """whether the first chunk attends to the last one as if it came before it"""
    causal: bool = True
    """whether no token attends to a later one"""
    same: bool = True
    """whether a token attends only to its own bucket"""
    latest: int | None = None
    """w, how many slots before itself a slot attends to, at most `chunk`; None for its whole window"""
    context: int | None = None
    """tokens that a token attends to, itself included; None for all"""
    alone: bool = True
    """whether a token attends to itself only if it has no other key"""

    def window(self, slot: int, slots: int) -> list[int]:
        """The slots whose scores are computed for slot `slot` of `slots`."""
        if self.latest is not None:
            return list(range(max(0, slot - self.latest), slot + 1))
        chunk, last = slot // self.chunk, (slots - 1) // self.chunk
        chunks = [chunk]
        if self.back and chunk:
            chunks = [chunk - 1, chunk]
        elif self.back and self.wrap and last:
            chunks = [last, chunk]
        return [s for c in chunks for s in range(c * self.chunk, min(slots, (c + 1) * self.chunk))]

    def terms(self, slots: int) -> int:
        """The number of scores that are computed for `slots` slots."""
        if self.latest is not None:
            first = min(self.latest, slots)  # the first slots, which have fewer than `latest` before them
            return first * (first + 1) // 2 + (slots - first) * (first + 1)
        m = self.chunk
        full, remainder = divmod(slots, m)  # full chunks, and the slots of the last chunk if it is not full
        within_chunks = full * m * m + remainder * remainder
        if not self.back:
            return within_chunks
        to_chunk_before = max(full - 1, 0) * m * m + (remainder * m if full else 0)
        first_to_last = m * (remainder or m) if self.wrap and slots > m else 0
        return within_chunks + to_chunk_before + first_to_last

    def visible(self, i: Tensor, query_bucket: Tensor, j: Tensor, key_bucket: Tensor) -> Bool[Tensor, "*R N"]:
        """Whether queries at times i (…, 1) in `query_bucket` attend to keys at times j (…, N) in `key_bucket`.

        A negative time is padding. Unless `alone`, a token attends to its own key too.
        """
        visible = (j >= 0) & (i >= 0)
        if self.causal:
            visible = visible & (j <= i)
        if self.context is not None:
            visible = visible & ((i - j).abs() < self.context)
        if self.same:
            visible = visible & (query_bucket == key_bucket)
        return visible & (i != j) if self.alone else visible


@final
@dataclass(frozen=True)
class Order:
    """N orders of the tokens of each row and head, each of S slots."""

    tokens: Int[Tensor, "B H N S"]
    """the token in each slot; -1 for an empty slot"""
    buckets: Int[Tensor, "B H N S"]
    """the bucket of the token in each slot"""
    used: Int[Tensor, " B"]
    """slots of an order that hold tokens; empty slots come after them"""
    whole: bool = True
    """whether every token has a slot"""


def by_bucket(buckets: Int[Tensor, "B H R T"], time: Int[Tensor, "B T"], together: bool = False) -> Order:
    """The orders by (bucket, time) of R rounds; if `together`, one order with the rounds one after the other.

    Tokens with a negative time have no slot; as many slots at the end are empty.
    """
    R, T = buckets.shape[2:]
    if together:
        buckets = (buckets + (torch.arange(R, device=buckets.device)[:, None] << 20)).flatten(2)[:, :, None]
        time = time.repeat(1, R)
    real = (time >= 0)[:, None, None]
    order = torch.where(real, (buckets << 40) + time[:, None, None], EMPTY).argsort(-1)
    real = real.expand_as(order).gather(-1, order)
    return Order(torch.where(real, order % T, -1), buckets.gather(-1, order), real[:, 0, 0].sum(-1))


def balance_clusters(scores: Float[Tensor, "B H T N"], time: Int[Tensor, "B T"]) -> Order:
    """For each of N clusters the ⌈T / N⌉ tokens with the highest scores, by time; a token may be in several clusters.

    Of tokens with equal scores the first are taken.

    T is the number of tokens of a row whose time is not negative.
    """
    T, N = scores.shape[2:]
    real = time >= 0
    real_scores = scores.masked_fill(~real[:, None, :, None], -torch.inf)
    best = real_scores.sort(stable=True, dim=2, descending=True).indices[:, :, : -(-T // N)]
    rank = torch.arange(best.shape[2], device=time.device)
    cluster_size = -(-real.sum(1) // N)
    times = time[:, None, :, None].expand_as(scores).gather(2, best)
    is_member = (rank[:, None] < cluster_size[:, None, None, None]) & (times >= 0)
    order = torch.where(is_member, times, EMPTY).argsort(2)
    tokens = torch.where(is_member.gather(2, order), best.gather(2, order), -1).transpose(2, 3)
    return Order(tokens, torch.zeros_like(tokens), (tokens[:, 0, 0] >= 0).sum(-1), whole=False)
