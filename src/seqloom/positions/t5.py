"""T5's relative positions: a learned bias for each head and each bucket of distances, the same table in all layers.

    z_ij ← z_ij + table[bucket(i - j), h]
    bucket(d) = d                                                   d < E,  E = N/2 of N buckets
    bucket(d) = min(N - 1, E + ⌊(N - E) log(d/E) / log(M/E)⌋)       d ≥ E,  M = 128

In a bidirectional layer half of the buckets is for keys ahead, by j - i, the other half for d ≥ 0; N is 16 in each.

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
def of_distances(buckets: int, far: int) -> tuple[int, ...]:
    """The bucket of each distance from 0 to `far`, one-sided; in whole numbers, so exactly."""
    exact = buckets // 2
    others = buckets - exact
    numbers = list(range(exact))
    for d in range(exact, far + 1):
        reached = [b for b in range(others) if d**others * exact**b >= far**b * exact**others]
        numbers.append(exact + max(reached))
    return tuple(numbers)


def bucket(distance: Int[Tensor, "*n"], buckets: int, far: int, causal: bool) -> Int[Tensor, "*n"]:
    """The bucket of each i - j; one-sided, where every later key is in bucket 0, for a `causal` layer."""
    if not causal:
        side = buckets // 2
        return side * (distance < 0).long() + bucket(distance.abs(), side, far, True)
    known = torch.tensor(of_distances(buckets, far), device=distance.device)
    return known[distance.clamp(0, far)]


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
        """Nothing but the addition."""
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
