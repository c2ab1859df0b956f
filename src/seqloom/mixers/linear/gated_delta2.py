"""Gated DeltaNet-2: Kimi Delta Attention that chooses channel by channel what a key erases and what a value writes.

    (q, k, v) = silu(conv(x W_qkv))             H heads of width K = D/H; no biases but b_a and b_g
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6)
    g = -e^a softplus(x A₁ A₂ + b_a)            per channel of the keys; one a per head; A₁ A₂ of rank R
    b = σ(x W_b), or 2σ(x W_b)                  strength of erasing, per channel of the keys
    w = σ(x W_w)                                strength of writing, per channel of the values
    S' = diag(e^{g_t}) S_{t-1},   S_t = S' + k_tᵀ (w_t ∘ v_t - (b_t ∘ k_t) S'),   y_t = q_t S_t             per head
    out = (norm(y) ∘ σ(x G₁ G₂ + b_g)) W_o      norm(y) = y / √(mean of y² + ε) ∘ gain, per head, one gain for all

With b = w = β, one number per head, it is `kda`. If nothing is written, `kda` never makes the norm of S larger; this
mixer can, by up to √(4/3) per token (√2 with b up to 2), since I - kᵀ(b ∘ k) is not symmetric; without a bound if
nothing decays.
Before training e^a is uniform in (1, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed.

Source: Hatamizadeh et al., Gated DeltaNet-2, arXiv:2605.22791, whose recurrence is
S_t = (I - k_t (b_t ∘ k_t)ᵀ) diag(α_t) S_{t-1} + k_t (w_t ∘ v_t)ᵀ; all around it as the layer `GatedDeltaNet2` of
flash-linear-attention, adapted from the authors' program, which this computes. There several heads of values may share
a key and may be wider than it; here they are as many and as wide as the keys, which is the default there.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.delta_channels import ChannelSettings, DeltaChannels
from seqloom.mixers.delta_heads import TRAITS
from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.keys import unit, unit_price
from seqloom.ops.delta_rule.reference import price


@final
class GatedDelta2(DeltaChannels):
    """Gated DeltaNet-2 over `dim` channels. State: the convolution's last inputs, and S (B, H, K, K)."""

    def __init__(self, dim: int, config: "GatedDelta2Config") -> None:
        super().__init__(dim, config, strengths=dim, negative=config.negative)
        self.w_w = Linear(dim, dim, bias=False)

    @override
    def apply_rule(
        self, x: Stream, qkv: Float[Tensor, "B T C"], S: Tensor | None, lengths: Lengths | None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = qkv.unflatten(-1, (3, self.heads, self.K)).transpose(1, 3).unbind(2)
        q, k = unit(q) / self.K**0.5, unit(k)
        g = self.log_decay(x)
        assert g is not None
        strengths = (self.strength(x), self._write_strength(x))
        b, w = (tensor.unflatten(-1, (self.heads, self.K)).transpose(1, 2) for tensor in strengths)
        g = g.transpose(1, 2)  # (B, H, T, K)
        return delta(q, k, w * v, erase=g.exp() * (b * k), log_decay=g, state=S, lengths=lengths)

    def _write_strength(self, x: Tensor) -> Tensor:
        """w (…, D) of tokens x (…, D)."""
        return torch.sigmoid(self.w_w(x))

    @override
    def plots(self, x: Stream) -> list[View]:
        axes = ("token", "channel")
        return [
            *self.decay_views(x),
            View("erase", "how much of a key's channel reads what is erased: b", axes, self.strength(x[0])),
            View("write", "how much of a value's channel is written: w", axes, self._write_strength(x[0])),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, n, H, K = span.rows, span.rows * self.dim, self.heads, self.K
        normalized = unit_price(2 * rows * H, K) + Cost(div=n, path=("division",))
        strengths = sigmoid(2 * n).parallel() + Cost(mul=n * (self.largest_strength != 1.0))
        scaled = Cost(mul=3 * n, exp=n, path=("multiplication", "multiplication"))  # erase twice, and the value
        rule = price(rows, H, K, K, "channel")
        return *self.prices_before(rows), normalized, strengths, scaled, rule, self.norm, self.w_o


@register
class GatedDelta2Config(ChannelSettings):
    """Gated DeltaNet-2. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["gated_delta2"] = "gated_delta2"
    negative: bool = Field(False, description="whether the erase strength reaches 2 instead of 1")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "rank": 2, "kernel": 2, "gate_bias": False, "negative": True})

    @override
    def make(self, layer: Layer) -> GatedDelta2:
        return GatedDelta2(layer.dim, self)
