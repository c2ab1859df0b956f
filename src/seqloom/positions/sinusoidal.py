"""Sinusoidal positions: sines and cosines of the position, with a longer wavelength in each later pair of channels.

    p_{t,2c} = sin(t b^{-2c/D}),   p_{t,2c+1} = cos(t b^{-2c/D}),      b = 10000
    x_t = √D token_t + p_t

Source: Vaswani et al., arXiv:1706.03762, section 3.5. If D is odd the last channel is a sine; seed 002 counts t from 1,
the paper from 0.
"""

import math
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Step
from seqloom.core.position import EmbeddingPosition, PositionConfig, register


def waves(time: Int[Tensor, "*rows"], width: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Sines (…, ⌈D/2⌉) and cosines (…, ⌊D/2⌋) of these positions, for `width` = D channels, in float64."""
    channel = torch.arange((width + 1) // 2, dtype=torch.float64, device=time.device)
    angle = time[..., None] * torch.exp(channel * (-2 / width * math.log(base)))
    return angle.sin(), angle[..., : width // 2].cos()


@final
class Sinusoidal(EmbeddingPosition):
    """Waves in `width` = D channels, for any position."""

    scaled: ClassVar = False

    def __init__(self, width: int, base: float) -> None:
        super().__init__()
        self.width, self.base = width, base

    @override
    def forward(self, time: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        sines, cosines = waves(time, self.width, self.base)
        table = sines.new_empty(*time.shape, self.width)
        table[..., 0::2] = sines
        table[..., 1::2] = cosines
        return table


@register
@final
class SinusoidalConfig(PositionConfig):
    """Fixed waves of many lengths, added to the embedding."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    place: ClassVar = "embedding"
    base: float = Field(10000.0, gt=1, description="approximate ratio of the longest wavelength to the shortest")

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> Sinusoidal:
        """It is the same for every context."""
        return Sinusoidal(width, self.base)

    @override
    def price(self, rows: int, dim: int, context: int) -> Cost:
        """An addition per channel; the angles and their waves."""
        half = (dim + 1) // 2
        path: tuple[Step, ...] = ("multiplication", "other", "addition")
        return Cost(mul=half + rows * half, exp=half, add=rows * dim, other=rows * dim, path=path)
