"""T5's relative positions: a learned bias for each head and each bucket of distances, the same table in all layers.

    z_ij ← z_ij + table[bucket(i - j), h]
    bucket(d) = d                                                   d < E,  E = N/2 of N buckets
    bucket(d) = min(N - 1, E + ⌊(N - E) log(d/E) / log(M/E)⌋)       d ≥ E,  M = 128

A bidirectional layer uses half of the buckets for keys after the query, by j - i, and half for d ≥ 0; N is 16 in each.

Source: Raffel et al., arXiv:1910.10683, section 2.1, and its code. Nothing differs; T5 has `scale: 1` for 1/√K.
"""

from functools import cache
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.position import PositionConfig, Relation, RelativePosition, register


@cache
def buckets_of_distances(buckets: int, far: int) -> tuple[int, ...]:
    """The bucket of each distance d from 0 to `far` on one side, from `buckets` = N and `far` = M.

    The logarithms of the equation are compared as powers of integers, so that no bucket depends on rounding.
    """
    E = buckets // 2
    logarithmic = buckets - E
    bucket_of = list(range(E))
    for d in range(E, far + 1):
        # b ≤ (N - E) log(d/E) / log(M/E)
        candidates = [b for b in range(logarithmic) if d**logarithmic * E**b >= far**b * E**logarithmic]
        bucket_of.append(E + max(candidates))
    return tuple(bucket_of)


def bucket(distance: Int[Tensor, "*n"], buckets: int, far: int, causal: bool) -> Int[Tensor, "*n"]:
    """The bucket of each distance i - j; in a `causal` layer distances below 0 are in bucket 0."""
    if not causal:
        side = buckets // 2
        return side * (distance < 0).long() + bucket(distance.abs(), side, far, True)
    traced = torch.compiler.is_compiling() or type(distance) is not Tensor
    bucket_of = (_table.__wrapped__ if traced else _table)(buckets, far, distance.device)
    return bucket_of[distance.clamp(0, far)]


@cache
def _table(buckets: int, far: int, device: torch.device) -> Int[Tensor, " far"]:
    """`buckets_of_distances` on a device. It is copied there once: a captured step could not, and would wait."""
    with torch.inference_mode(False):  # what inference mode makes could not be saved for a backward
        return torch.tensor(buckets_of_distances(buckets, far), device=device)


@final
class T5Positions(RelativePosition):
    """The table (N, H) of `buckets` = N buckets."""

    def __init__(self, heads: int, buckets: int, far: int, causal: bool) -> None:
        super().__init__()
        self.buckets, self.far, self.causal = buckets, far, causal
        self.table = nn.Embedding(buckets, heads)

    @override
    def forward(self, behind: int, ahead: int, alone: bool) -> Relation:
        first = -min(ahead, self.far)
        distance = torch.arange(first, min(behind, self.far) + 1, device=self.table.weight.device)
        return Relation(values=self.table(bucket(distance, self.buckets, self.far, self.causal)).T, first=first)

    @override
    def price(self, span: Span, terms: int, distances: int) -> Cost:
        """0: attention counts the addition of the bias."""
        return Cost()


@register
@final
class T5Config(PositionConfig):
    """A learned bias of scores by buckets of distances, shared by all layers (T5)."""

    kind: Literal["t5"] = "t5"
    place: ClassVar = "scores"
    shared: ClassVar = True
    buckets: int = Field(32, ge=4, multiple_of=4, description="buckets of distances, a multiple of 4")
    far: int = Field(
        128, ge=2, le=4096, description="distance, in tokens, from which all distances share the last bucket"
    )

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> T5Positions:
        """Raises ValueError unless `far` is more than the distances that have buckets of their own."""
        if self.far <= self.buckets // 2:
            raise ValueError(
                f"t5 positions have {self.buckets // 2} buckets of one distance each, no fewer than far {self.far}: "
                "raise far or lower buckets"
            )
        return T5Positions(heads, self.buckets, self.far, causal)
