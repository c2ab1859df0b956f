"""Retention: attention whose softmax is replaced by a fixed exponential decay, which is slower in each further head.

    q = (x W_q) e^{ιtθ},  k = (x W_k) e^{-ιtθ} / √K,  v = x W_v      H heads; q, k of width K = D/H, v of width V = 2K
    S_t = γ_h S_{t-1} + k_tᵀ v_t,   y_t = q_t S_t                     γ_h = 1 - 2^{-5-h}, h < H; θ_i = 10000^{-2i/K}
    out = (swish(x W_g) ∘ concat_h norm(y)) W_o

γ and θ are fixed. e^{ιtθ} turns pairs of channels at position t (`seqloom.positions.rotary`), and norm subtracts each
head's mean and divides by √(variance + eps), without gain and bias; with `head_norm` rms it divides by √(mean of y² +
eps) and multiplies by a gain that all heads share, as flash-linear-attention's RetNet does.

Source: Sun et al., Retentive Network, arXiv:2307.08621, Eq. 5-8. Of the paper's three normalizations of scores only
1/√K is implemented: the other two scale all channels of a head's y_t alike, which norm cancels (but for eps). Seed 001
calls γ and θ learned, and its Eq. 22 divides by γ^t, which overflows.
"""

import math
from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm, silu
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate, layernorm
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.linear_decay import decay
from seqloom.ops.linear_decay.reference import price
from seqloom.positions.rotary import angles, rotate, turns

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class Retention(PackedMixer):
    """Multi-scale retention over `dim` channels. State: the sum S (B, H, K, 2K)."""

    traits = TRAITS
    log_decay: Tensor  # (H,), log γ, in float64
    theta: Tensor  # (K/2,), in float64

    def __init__(self, dim: int, heads: int, eps: float, head_norm: Literal["layer", "rms"] = "layer") -> None:
        super().__init__()
        if dim % (2 * heads):
            raise ValueError(f"dim {dim} does not give {heads} heads of even width: choose heads that divide {dim}/2")
        self.dim, self.heads, self.eps = dim, heads, eps
        self.w_q, self.w_k = (Linear(dim, dim, bias=False) for _ in range(2))
        self.w_v, self.w_g = (Linear(dim, 2 * dim, bias=False) for _ in range(2))
        self.w_o = Linear(2 * dim, dim, bias=False)
        self.norm = HeadNorm(heads, 2 * dim // heads, "silu", eps) if head_norm == "rms" else None
        self.rebuild()

    @override
    def rebuild(self) -> None:
        """Computes log γ and θ, which move with the module but are never rounded to its dtype."""
        log_gammas = [math.log1p(-(2.0 ** (-5 - h))) for h in range(self.heads)]
        for name, values in (
            ("log_decay", torch.tensor(log_gammas, dtype=torch.float64)),
            ("theta", angles(self.dim // self.heads)),
        ):
            self.register_buffer(name, values.to(self.device), persistent=False)

    @property
    @override
    def state_spec(self) -> StateSpec:
        K = self.dim // self.heads
        return {"sum": StateEntry((self.heads, K, 2 * K), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        position = torch.arange(x.shape[1], device=x.device)
        if state:
            position = (state["length"][:, None] + position)[:, None]  # (B, 1, T)
        q, k, v = self._project(x, position)
        y, sums = decay(q, k, v, self.log_decay, state["sum"] if state else None, lengths=lengths)
        if self.norm is not None:
            return self.w_o(self.norm(y, self.w_g(x))), {"sum": sums}
        normed = layer_norm(y, y.shape[-1:], eps=self.eps).transpose(1, 2).flatten(2)
        return self.w_o(silu(self.w_g(x)) * normed), {"sum": sums}

    @override
    def plots(self, x: Stream) -> list[View]:
        """The share of a token that each head holds after each lag, and the scores of each head on the first row."""
        position = torch.arange(x.shape[1], device=x.device)
        lag = position[:, None] - position
        remaining = torch.exp(position[:, None] * self.log_decay)
        q, k, _ = self._project(x[:1], position)
        scores = (q @ k.mT)[0] * torch.exp(lag.clamp(min=0) * self.log_decay[:, None, None]).to(q.dtype).tril()
        meaning = "what a query takes of each key's value, before the norm"
        return [
            View("decay", "how much of a token each head still holds after a lag", ("lag", "head"), remaining),
            *(View(f"scores of head {h}", meaning, ("query", "key"), score) for h, score in enumerate(scores)),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, D, H, K = span.rows, self.dim, self.heads, self.dim // self.heads
        rotation = Cost(  # sines, cosines and signs are counted in `other`
            mul=rows * (K // 2 + 4 * D), add=rows * 2 * D, div=rows * D, other=rows * (K + K), path=("multiplication",)
        )
        summed = price(rows, H, K, 2 * K, "head")
        if self.norm is not None:
            return self.w_q, rotation, summed, self.norm, self.w_o
        norm = layernorm(rows * H, 2 * K, gain=False, bias=False)
        return self.w_q, rotation, summed, norm, gate(rows * 2 * D), self.w_o

    def _project(self, x: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys (B, H, T, K), turned by their positions (T,) or (B, 1, T), and values (B, H, T, 2K)."""
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        dtype = torch.promote_types(q.dtype, torch.float32)  # that of the sums
        cos, sin = turns(position, self.theta, dtype)
        q, k = rotate(q.to(dtype), cos, sin), rotate(k.to(dtype), cos, sin)
        return q, k / math.sqrt(k.shape[-1]), v


@register
class RetentionConfig(MixerConfig):
    """RetNet's multi-scale retention. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["retention"] = "retention"
    heads: int = Field(4, ge=1, description="heads, each with its own decay; divides dim / 2")
    eps: float = Field(1e-6, gt=0, description="ε added to the variance in each head's norm")
    head_norm: Literal["layer", "rms"] = Field(
        "layer", description="norm of each head: by mean and variance, or by root mean square with a gain (as in fla)"
    )
    later: ClassVar = ("head_norm",)
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        128, "the norm of a head divides by the deviation of its few channels, which may be near 0"
    )
    examples: ClassVar = ({"heads": 2}, {"heads": 1}, {"heads": 4})

    @override
    def make(self, layer: Layer) -> Retention:
        return Retention(layer.dim, self.heads, self.eps, self.head_norm)
