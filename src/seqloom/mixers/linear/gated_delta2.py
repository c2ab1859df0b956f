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
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.delta_by_channel import TRAITS, DeltaByChannel, DeltaByChannelSettings
from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.reference import price
from seqloom.ops.fused.projection import convert_for_products


@final
class GatedDelta2(DeltaByChannel):
    """Gated DeltaNet-2 over `dim` channels. State: the convolution's last inputs, and S (B, H, K, K)."""

    def __init__(self, dim: int, config: "GatedDelta2Config") -> None:
        super().__init__(dim, config, strengths=dim)
        self.w_w = Linear(dim, dim, bias=False)
        self.largest_strength = 2.0 if config.negative else 1.0

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        x = convert_for_products(x)
        q, k, v, window = self.queries_keys_values(x, state, lengths)
        erase, write = self._by_head(self._erase_strength(x)), self._by_head(self._write_strength(x))
        g, b, w = (tensor.transpose(1, 2) for tensor in (self.log_decay(x), erase, write))  # (B, H, T, K)
        old_state = state["S"] if state else None
        y, S = delta(q, k, w * v, erase=g.exp() * (b * k), log_decay=g, state=old_state, lengths=lengths)
        return self.w_o(self.norm(y, self.gate_out(self.gate_in(x)))), {**window, "S": S}

    @override
    def views(self, x: Stream) -> list[View]:
        axes = ("token", "channel")
        return [
            self.decay_view(x[0]),
            View("erase", "how much of a key's channel reads what is erased: b", axes, self._erase_strength(x[0])),
            View("write", "how much of a value's channel is written: w", axes, self._write_strength(x[0])),
        ]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, n, H, K = span.rows, span.rows * self.dim, self.heads, self.K
        strengths = sigmoid(2 * n).parallel() + Cost(mul=n * (self.largest_strength != 1.0))
        scaled = Cost(mul=3 * n, exp=n, path=("multiplication", "multiplication"))  # erase twice, and the value
        return *self.prices_before(rows), strengths, scaled, price(rows, H, K, K, "channel"), self.norm, self.w_o

    def _erase_strength(self, x: Tensor) -> Tensor:
        """b (…, D) of tokens x (…, D)."""
        b = torch.sigmoid(self.w_b(x))
        return b if self.largest_strength == 1.0 else self.largest_strength * b

    def _write_strength(self, x: Tensor) -> Tensor:
        """w (…, D) of tokens x (…, D)."""
        return torch.sigmoid(self.w_w(x))

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.K))


@register
class GatedDelta2Config(DeltaByChannelSettings):
    """Gated DeltaNet-2. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["gated_delta2"] = "gated_delta2"
    negative: bool = Field(False, description="whether the erase strength reaches 2 instead of 1")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "rank": 2, "kernel": 2, "gate_bias": False, "negative": True})

    @override
    def make(self, layer: Layer) -> GatedDelta2:
        return GatedDelta2(layer.dim, self)
