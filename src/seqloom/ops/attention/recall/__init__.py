"""Attention to the n old keys that have the largest products with a query.

    S_i = the n largest q_i · k_j with W ≤ i - j < W + M            or all if there are fewer; y_i = 0 without any
    y_i = Σ_{j ∈ S_i} e^{q_i · k_j / √K} v_j / Σ_{j ∈ S_i} e^{q_i · k_j / √K}

Keys and values have no gradient. i and j are the times of queries and keys, as in `seqloom.ops.attention`.

Source: Wu et al., Memorizing Transformers, arXiv:2203.08913, section 3.1. What differs: the search is exact, where
theirs may be approximate.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqloom.core.largest import largest as first_largest
from seqloom.ops.attention.recall import reference
from seqloom.ops.bucketing.choices import make_choice
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

AT_ONCE = 1 << 22
"""scores that are formed at once"""


@final
@dataclass(frozen=True)
class Old:
    """Which keys are old, and how many of them a query reads."""

    after: int
    """W, the distance in tokens from a query to the newest old key"""
    most: int
    """M, the most old keys"""
    count: int
    """n, the keys that a query reads"""

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """Whether the keys at times j are old at times i; never those at negative times, which are empty."""
        return (i - j >= self.after) & (i - j < self.after + self.most) & (j >= 0)

    def terms(self, T: int) -> tuple[int, int]:
        """The numbers of old keys and of keys that are read, summed over the queries at positions 1 … T."""
        growing = range(1, min(max(T - self.after, 0), self.most) + 1)  # old keys of the queries with at most M
        full = max(T - self.after - self.most, 0)  # further queries, each with M old keys
        old = sum(growing) + full * self.most
        read = sum(min(keys, self.count) for keys in growing) + full * min(self.most, self.count)
        return old, read


def recall(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H N K"],
    v: Float[Tensor, "B H N V"],
    old: Old,
    *,
    query_time: Int[Tensor, "#B T"] | None = None,
    key_time: Int[Tensor, "#B N"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Bool[Tensor, "#B 1 T 1"]]:
    """The outputs y, and which queries have old keys. Times are 0, 1, … where they are not given."""
    now = torch.arange(q.shape[2], device=q.device)[None] if query_time is None else query_time
    then = torch.arange(k.shape[2], device=k.device)[None] if key_time is None else key_time
    k, v = (values.to(q.dtype) for values in make_choice(lambda: (k.detach(), v.detach())))
    seen = old(now[:, :, None], then[:, None])[:, None]  # (B or 1, 1, T, N)
    y: Tensor = OP[OP.choose(q)](q, k, v, seen, old.count)
    return y, seen.any(-1, keepdim=True)


def choose_backend(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "formed"


def recall_by_products(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    """The backend `formed`: all products at once, and the weights of all old keys, 0 for keys that are not read.

    `seen` (B or 1, 1, T, N) is True at old keys.
    """
    tile = max(1, AT_ONCE // max(q.shape[0] * q.shape[1] * k.shape[2], 1))
    if torch.compiler.is_compiling() or tile >= q.shape[2]:
        return _tile(q, k, v, seen, count)
    tiles = zip(q.split(tile, 2), seen.split(tile, 2), strict=True)
    return torch.cat([_tile(q_tile, k, v, seen_tile, count) for q_tile, seen_tile in tiles], 2)


def _tile(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    """The outputs of a tile of queries."""
    scores = q @ k.mT
    largest = make_choice(lambda: first_largest(scores.masked_fill(~seen, -torch.inf), count)[1])
    old = seen.expand_as(scores).gather(3, largest)  # False where a query has fewer old keys than `count`
    z = scores.gather(3, largest) / k.shape[3] ** 0.5
    a = torch.where(old, z, -torch.inf).softmax(3)
    a = torch.where(old, a, 0.0)  # a query without old keys reads nothing
    return torch.zeros_like(scores).scatter(3, largest, a) @ v


def _example(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return recall(q, k, v, Old(0, 5, 2))[0]


OP = Op(
    "recall",
    {"reference": Backend(reference.recall), "formed": Backend(recall_by_products, plain=True)},
    rule=choose_backend,
    examples=(_example,),
    price=reference.price,
)
