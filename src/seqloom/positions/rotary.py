"""Rotary positions: the channels of a query or key are turned, pair by pair, by an angle that grows with its position.

    θ_c = base^{-2c/R},   c < R/2                                         R = share · K channels are turned
    (x_c + ι x_{c+R/2}) ← (x_c + ι x_{c+R/2}) e^{ι t θ_c}                 t the position, ι² = -1

With a `stretch` s > 1 texts may be longer than those of a training: θ_c ← θ_c/s, or, where the length L of its texts is
given as `trained`, slow pairs alone: θ_c ← (1 - m) θ_c/s + m θ_c, m = (r - slow)/(fast - slow) within [0, 1], where r =
L θ_c/2π are the turns of the pair in such a text.

With `pairs: neighbors` a pair is x_{2c} and x_{2c+1} instead. The product of a query turned by t and a key turned by u
depends on t - u alone: Σ_c Re(q_c k̄_c e^{ι(t-u)θ_c}). The real product of two pairs takes the conjugate of the second,
so that turning both the same way is the paper's e^{ιtθ} on queries and e^{-ιuθ} on keys.

Source: Su et al., arXiv:2104.09864, Eq. 14-16 and 34, where neighbors are a pair. Halves, the default here, are the
same up to the order of channels (`order`) and read memory in order; GPT-NeoX, arXiv:2204.06745, turns a share of them.
Stretched angles: Chen et al., arXiv:2306.15595, and with `trained` as in Llama 3.1's program.
"""

from collections.abc import Callable
from functools import partial
from math import pi
from typing import ClassVar, Literal, TypeAlias, final

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Span, Step
from seqloom.core.position import PositionConfig, QueriesKeysPosition, register

Pairs: TypeAlias = Literal["halves", "neighbors"]


def angles(width: int, base: float = 10000.0) -> Float[Tensor, "half"]:
    """The angles θ (K/2,) by which one position turns each pair of `width` = K channels, in float64; radians.

    Raises ValueError for an odd width.
    """
    if width % 2:
        raise ValueError(
            f"rotary positions turn pairs of channels: a width of {width} is odd; choose dim, heads or share so that "
            "each head turns an even number"
        )
    return torch.tensor([base ** (-2 * i / width) for i in range(width // 2)], dtype=torch.float64)


Stretched: TypeAlias = Callable[[Tensor], Tensor]
"""from the angles of a training to those for longer texts"""


def stretched_angles(
    theta: Float[Tensor, "half"], stretch: float, trained: int | None, slow: float, fast: float
) -> Float[Tensor, "half"]:
    """The angles (K/2,) for texts `stretch` times as long: all divided, or by their turns in `trained` tokens."""
    if trained is None:
        return theta / stretch
    share = ((trained * theta / (2 * pi) - slow) / (fast - slow)).clamp(0, 1)
    return (1 - share) * theta / stretch + share * theta


def turns(time: Tensor, theta: Float[Tensor, "half"], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos(tθ) and sin(tθ) of the times (…), each (…, K/2), rounded to `dtype` at the end.

    tθ is computed in the dtype of θ: in float32 it would be off by up to a hundredth of a radian near t = 100,000.
    """
    angle = time[..., None].to(theta.dtype) * theta
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Float[Tensor, "*rows K"], cos: Tensor, sin: Tensor, pairs: Pairs = "halves") -> Float[Tensor, "*rows K"]:
    """x (…, K) with its first R channels turned pair by pair; cos and sin (…, R/2) are broadcast against it."""
    width = 2 * cos.shape[-1]
    if width < x.shape[-1]:
        return torch.cat([rotate(x[..., :width], cos, sin, pairs), x[..., width:]], -1)
    if pairs == "halves":
        return x * torch.cat([cos, cos], -1) + x.roll(width // 2, -1) * torch.cat([-sin, sin], -1)
    swapped = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return x * cos.repeat_interleave(2, -1) + swapped * torch.stack([-sin, sin], -1).flatten(-2)


def order(width: int) -> Int[Tensor, "K"]:
    """The permutation of channels from pairs of neighbors to pairs of halves: x[..., order] has pairs of halves."""
    return torch.arange(width).view(-1, 2).T.flatten()


@final
class Rotary(QueriesKeysPosition):
    """Turns the first `width` channels, an even number, of queries of `heads` heads and keys of `kv_heads` heads."""

    theta: Tensor  # (R/2,), in float64, whatever the dtype of the model

    def __init__(
        self, width: int, heads: int, kv_heads: int, base: float, pairs: Pairs, stretched: Stretched | None = None
    ) -> None:
        super().__init__()
        self.width, self.heads, self.base, self.pairs = width, heads + kv_heads, base, pairs
        self._stretched = stretched
        self.rebuild(torch.empty(0).device)

    @override
    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G T K"], time: Int[Tensor, "*rows T"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G T K"]]:
        compute_dtype = torch.promote_types(q.dtype, torch.float32)
        cos, sin = turns(time if time.ndim == 1 else time[:, None], self.theta, compute_dtype)
        q, k = (rotate(x.to(compute_dtype), cos, sin, self.pairs).to(x.dtype) for x in (q, k))
        return q, k

    @override
    def price(self, span: Span, /) -> Cost:
        """Sines, cosines and signs are counted in `other`."""
        rows, R, channels = span.rows, self.width, self.width * self.heads  # channels of all queries and keys
        path: tuple[Step, ...] = ("multiplication", "other", "multiplication", "addition")
        return Cost(mul=rows * (R // 2 + 2 * channels), add=rows * channels, other=rows * 2 * R, path=path)

    @override
    def rebuild(self, where: torch.device) -> None:
        """Computes θ, which moves with the module but is never rounded to its dtype."""
        theta = angles(self.width, self.base)
        theta = theta if self._stretched is None else self._stretched(theta)
        self.register_buffer("theta", theta.to(where), persistent=False)


@register
@final
class RotaryConfig(PositionConfig):
    """Rotary positions (RoPE): pairs of channels of queries and keys are rotated by an angle per position."""

    kind: Literal["rotary"] = "rotary"
    place: ClassVar = "queries_keys"
    base: float = Field(10000.0, gt=1, description="approximate ratio of the fastest rotation to the slowest")
    pairs: Pairs = Field("halves", description="which channels form a pair: c and c + half of the width, or neighbors")
    share: float = Field(
        1.0, gt=0, le=1, description="fraction of each head's channels that is rotated, from the first"
    )
    stretch: float = Field(1.0, ge=1, description="how many times longer texts may be than those of the training")
    trained: int | None = Field(
        None, ge=1, description="tokens of the training's texts, by which only slow pairs are stretched; unset: all are"
    )
    slow: float = Field(1.0, ge=0, description="turns in a text of `trained` tokens up to which a pair is stretched")
    fast: float = Field(4.0, gt=0, description="turns in a text of `trained` tokens from which a pair is not stretched")
    later: ClassVar = ("pairs", "share", "stretch", "trained", "slow", "fast")

    @model_validator(mode="after")
    def _check_order(self) -> "RotaryConfig":
        if self.fast <= self.slow:
            raise ValueError(f"fast {self.fast:g} must be more turns than slow {self.slow:g}")
        if self.trained is not None and self.stretch == 1:
            raise ValueError("trained is for a stretch above 1: set stretch, or leave trained out")
        return self

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> Rotary:
        """It is the same for every context. Raises ValueError for an odd width."""
        turned = int(width * self.share)
        if turned == 0:
            raise ValueError(f"rotary positions with share {self.share} turn no pair of {width} channels: raise share")
        stretched = partial(
            stretched_angles, stretch=self.stretch, trained=self.trained, slow=self.slow, fast=self.fast
        )
        groups = heads if kv_heads is None else kv_heads
        return Rotary(turned, heads, groups, self.base, self.pairs, stretched if self.stretch > 1 else None)
