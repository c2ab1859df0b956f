"""ALiBi: scores fall linearly with the distance, in each head at a rate of its own.

    z_ij ← z_ij - m_h |i - j|,   m_h = 2^{-8(h+1)/H},   h < H

For an H that is not a power of two: the slopes for the largest power n below H, then every other slope for 2n.

Source: Press et al., arXiv:2108.12409, section 3, and its code, for the rule; |i - j| in a bidirectional layer. Nothing
differs.
"""

from typing import ClassVar, Literal, final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.position import PositionConfig, Relation, RelativePosition, register


def slopes(heads: int) -> list[float]:
    """The slope m_h of each head."""
    power_of_2 = 1 << (heads.bit_length() - 1)
    slopes_of_power = [2 ** (-8 * (h + 1) / power_of_2) for h in range(power_of_2)]
    slopes_between = [2 ** (-4 * (2 * h + 1) / power_of_2) for h in range(heads - power_of_2)]
    return slopes_of_power + slopes_between


@final
class ALiBi(RelativePosition):
    """The slopes of `heads` = H heads."""

    slopes: Tensor  # (H,), in float64

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.rebuild(torch.empty(0).device)

    @override
    def forward(self, behind: int, ahead: int, alone: bool) -> Relation:
        distance = torch.arange(-ahead, behind + 1, device=self.slopes.device)
        return Relation(values=-distance.abs() * self.slopes[:, None], first=-ahead)

    @override
    def price(self, span: Span, terms: int, distances: int) -> Cost:
        """A product for each distance and head."""
        return Cost(mul=self.heads * distances)

    @override
    def rebuild(self, where: torch.device) -> None:
        """Computes the slopes, which are not rounded to the dtype of the model."""
        self.register_buffer(
            "slopes", torch.tensor(slopes(self.heads), dtype=torch.float64).to(where), persistent=False
        )


@register
@final
class ALiBiConfig(PositionConfig):
    """Scores fall linearly with the distance, in each head at a rate of its own (ALiBi)."""

    kind: Literal["alibi"] = "alibi"
    place: ClassVar = "scores"

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> ALiBi:
        """For any number of heads."""
        return ALiBi(heads)
