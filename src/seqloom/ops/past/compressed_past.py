"""The pattern of attention where old tokens are compressed block by block: which tokens and slots a query sees.

    n(t) = max(0, ⌈(t - M) / c⌉)                the blocks that are compressed when the query at time t reads
    tokens j with c n(t) ≤ j ≤ t                memory and sequence: M - c + 1 to M tokens before its own
    slots b with n(t) - S ≤ b < n(t)            of block b, the tokens c b … c b + c - 1
    distance t - j of a token,   M + n(t) - b of a slot: slots follow the memory one by one

A block is compressed once its first token is more than M tokens back. So what a query sees depends on its time alone,
however a text is cut into pieces, and it reaches at most M + c S tokens back.

Source: Rae et al., Compressive Transformer, arXiv:1911.05507, section 3 and Algorithm 1; M = n_m, S = n_cm. What
differs: there the oldest tokens are compressed a segment at a time, so that a token sees M tokens before its segment.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.cost import Span

SLOT = 1 << 40
"""the time of slot b is SLOT + b, which is larger than that of any token"""


@final
@dataclass(frozen=True)
class CompressedPast:
    """A pattern over tokens and slots, which have different times (`SLOT`)."""

    memory: int
    """M, a multiple of the rate"""
    slots: int
    """S"""
    rate: int
    """c"""

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """True where the query at time i sees the token or the slot at time j."""
        n, b = self.blocks_at(i), j - SLOT
        return torch.where(j < SLOT, (j >= self.rate * n) & (j <= i), (b < n) & (b >= n - self.slots))

    def tokens(self, i: Tensor, j: Tensor) -> Tensor:
        """True where the query at time i sees the token at time j; slots are not considered."""
        return (j >= self.rate * self.blocks_at(i)) & (j <= i)

    def distance(self, i: Tensor, j: Tensor) -> Tensor:
        """How far the token or slot at time j is from the query at time i."""
        return torch.where(j < SLOT, i - j, self.memory + self.blocks_at(i) - (j - SLOT))

    def blocks(self, time: int) -> int:
        """n(t) of one time t."""
        count = -((self.memory - time) // self.rate)
        return count if count > 0 else 0  # not `max`, whose result has no known size in a graph with symbolic sizes

    def blocks_at(self, time: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
        """n(t) of each time t."""
        return (-((self.memory - time) // self.rate)).clamp(min=0)

    def terms(self, span: Span) -> int:
        """The number of pairs of a query and a token or slot that it sees."""
        return self._pairs(span.T) - (self._pairs(span.T - 1) if span.per == "token" else 0)

    def token_terms(self, span: Span) -> int:
        """The number of pairs of a query and a token that it sees."""
        return self._token_pairs(span.T) - (self._token_pairs(span.T - 1) if span.per == "token" else 0)

    def count_compressed(self, span: Span) -> int:
        """The number of blocks that are compressed for these queries and not already for earlier ones."""
        return self.blocks(span.T - 1) - (self.blocks(span.T - 2) if span.per == "token" else 0)

    def distances(self, span: Span) -> int:
        """The number of distances to tokens and slots that these queries are the first to have."""
        before = self._distances(span.T - 1) if span.per == "token" else 0
        return self._distances(span.T) - before

    def _pairs(self, T: int) -> int:
        """The number of pairs of a query and a token or slot that it sees, over the first T queries."""
        with_slots = max(T - 1 - self.memory, 0)  # queries that see slots
        growing = min(with_slots, self.rate * self.slots)  # the first of them, before there are S slots
        return self._token_pairs(T) + self._rounded_up(growing) + self.slots * (with_slots - growing)

    def _token_pairs(self, T: int) -> int:
        """The number of pairs of a query and a token that it sees, over the first T queries."""
        return T * (T + 1) // 2 - self.rate * self._rounded_up(max(T - 1 - self.memory, 0))

    def _rounded_up(self, count: int) -> int:
        """Σ ⌈u / c⌉ over u from 1 to `count`."""
        quotient, remainder = divmod(count, self.rate)
        return self.rate * quotient * (quotient + 1) // 2 + remainder * (quotient + 1)

    def _distances(self, T: int) -> int:
        """The number of different distances of the first T queries."""
        return min(T, self.memory + 1) + min(self.blocks(T - 1), self.slots)
