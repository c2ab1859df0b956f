"""Rotary positions: the channels of a query or key are turned, pair by pair, by an angle that grows with its place.

    θ_i = base^{-2i/K},   i < K/2
    (x_i + ι x_{i+K/2}) ← (x_i + ι x_{i+K/2}) e^{ι t θ_i}                 t the place, ι² = -1

The product of a query turned by t and a key turned by u depends on t - u alone: Σ_i Re(q_i k̄_i e^{ι(t-u)θ_i}). The real
product of two pairs takes the conjugate of the second, so that turning both the same way is the paper's e^{ιtθ} on
queries and e^{-ιuθ} on keys.

Source: Su et al., arXiv:2104.09864, Eq. 14-16 and 34. There neighbours are a pair; here channels i and i + K/2 are,
which is the same up to the order of channels and reads memory in order.
"""

from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Span, Step
from seqloom.core.position import PositionConfig, QueriesKeysPosition, register


def angles(width: int, base: float = 10000.0) -> Float[Tensor, "half"]:
    """The angles θ (K/2,) by which one place turns each pair of `width` = K channels, in float64; radians.

    Raises ValueError for an odd width.
    """
    if width % 2:
        raise ValueError(f"rotary positions turn pairs of channels: a width of {width} is odd")
    return torch.tensor([base ** (-2 * i / width) for i in range(width // 2)], dtype=torch.float64)


def turns(time: Tensor, theta: Float[Tensor, "half"], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos(tθ) and sin(tθ) of the times (…), each (…, K/2), rounded to `dtype` at the end.

    Angles are multiplied out in the number type of θ: in float32, a place near 100,000 would be off by a hundredth.
    """
    angle = time[..., None].to(theta.dtype) * theta
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Float[Tensor, "*rows K"], cos: Tensor, sin: Tensor) -> Float[Tensor, "*rows K"]:
    """x (…, K) with each pair (x_i, x_{i+K/2}) turned; cos and sin (…, K/2) are broadcast against it."""
    half = x.shape[-1] // 2
    return x * torch.cat([cos, cos], -1) + x.roll(half, -1) * torch.cat([-sin, sin], -1)


@final
class Rotary(QueriesKeysPosition):
    """Turns the queries and keys of `heads` heads of `width` = K channels, an even number."""

    theta: Tensor  # (K/2,), in float64, whatever the dtype of the model

    def __init__(self, width: int, heads: int, base: float) -> None:
        super().__init__()
        self.width, self.heads, self.base = width, heads, base
        self.rebuild(torch.empty(0).device)

    @override
    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], time: Int[Tensor, "*rows T"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        wide = torch.promote_types(q.dtype, torch.float32)
        cos, sin = turns(time if time.ndim == 1 else time[:, None], self.theta, wide)
        return rotate(q.to(wide), cos, sin).to(q.dtype), rotate(k.to(wide), cos, sin).to(k.dtype)

    @override
    def price(self, span: Span, /) -> Cost:
        """Sines, cosines and signs are counted in `other`."""
        rows, K, D = span.rows, self.width, self.width * self.heads
        path: tuple[Step, ...] = ("multiplication", "other", "multiplication", "addition")
        return Cost(mul=rows * (K // 2 + 4 * D), add=rows * 2 * D, other=rows * 2 * K, path=path)

    @override
    def rebuild(self, where: torch.device) -> None:
        """Θ, which moves with the module but is never rounded to its dtype."""
        self.register_buffer("theta", angles(self.width, self.base).to(where), persistent=False)


@register
@final
class RotaryConfig(PositionConfig):
    """Queries and keys turned, pair by pair of channels, by an angle that grows with the position (RoPE)."""

    kind: Literal["rotary"] = "rotary"
    place: ClassVar = "queries_keys"
    base: float = Field(10000.0, gt=1, description="ratio of the fastest turn to the slowest, about")

    @override
    def build(self, width: int, context: int | None, heads: int = 1) -> Rotary:
        """It is the same for every context. Raises ValueError for an odd width."""
        return Rotary(width, heads, self.base)
