"""xPos: rotary positions whose products decay with the distance, the more the faster a channel rotates.

    ζ_c = (2c/K + γ) / (1 + γ),   c < K/2
    q_c ← q_c e^{ι t θ_c} ζ_c^{t/S},   k_c ← k_c e^{ι u θ_c} ζ_c^{-u/S}     pairs as in `rotary`; γ = 0.4, S = 512

The product has ζ_c^{(t-u)/S}. Only this power of the difference is computed (by `seqloom.ops.attention`), so that
all numbers are finite: ζ_0^{-t/S} overflows float32 at t = 36,262. Keys are cached rotated, without ζ.

Source: Sun et al., arXiv:2212.10554, section 3. As here, c counts from 0; S is 512 in the authors' code. In a
bidirectional layer the products of keys after the query grow with the distance, as in the authors' encoder.
"""

from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.position import PositionConfig, QueriesKeysPosition, register
from seqloom.positions.rotary import Rotary


@final
class XPos(QueriesKeysPosition):
    """As `Rotary`, for all `width` = K channels."""

    rates: Tensor  # (K,), -log(ζ) / S, in float64

    def __init__(self, width: int, heads: int, kv_heads: int, base: float, gamma: float, span: float) -> None:
        super().__init__()
        self.rotary, self.gamma, self.span = Rotary(width, heads, kv_heads, base, "halves"), gamma, span
        self.rebuild(torch.empty(0).device)

    @override
    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G T K"], time: Int[Tensor, "*rows T"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G T K"]]:
        q, k = self.rotary(q, k, time)
        return q, k

    @property
    @override
    def decay(self) -> Tensor:
        return self.rates

    @override
    def price(self, span: Span, /) -> Cost:
        return self.rotary.price(span)

    @override
    def rebuild(self, where: torch.device) -> None:
        """Computes the rates and θ, which are never rounded to the dtype of the model."""
        self.rotary.rebuild(where)
        c = torch.arange(self.rotary.width // 2, dtype=torch.float64)
        zeta = (2 * c / self.rotary.width + self.gamma) / (1 + self.gamma)
        self.register_buffer("rates", (-zeta.log() / self.span).repeat(2).to(where), persistent=False)


@register
@final
class XPosConfig(PositionConfig):
    """Rotary positions whose products decay with the distance (xPos)."""

    kind: Literal["xpos"] = "xpos"
    place: ClassVar = "queries_keys"
    base: float = Field(10000.0, gt=1, description="approximate ratio of the fastest rotation to the slowest")
    gamma: float = Field(0.4, gt=0, description="the larger, the less the fastest rotations decay")
    span: float = Field(512.0, gt=0, description="tokens over which the fastest rotation decays by γ / (1 + γ)")

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> XPos:
        """It is the same for every context. Raises ValueError for an odd width."""
        return XPos(width, heads, heads if kv_heads is None else kv_heads, self.base, self.gamma, self.span)
