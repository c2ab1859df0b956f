"""Kimi Delta Attention: the gated delta rule in which each channel of the keys decays at a rate of its own.

    (q, k, v) = silu(conv(x W_qkv))             H heads of width K = D/H; no biases but b_a and b_g
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6)
    g = -e^a softplus(x A₁ A₂ + b_a)            per channel of the keys; one a per head; A₁ A₂ of rank R
    β = σ(x W_b)                                per head
    S' = diag(e^{g_t}) S_{t-1},   S_t = S' + β_t k_tᵀ (v_t - k_t S'),   y_t = q_t S_t                   per head
    out = (norm(y) ∘ σ(x G₁ G₂ + b_g)) W_o      norm(y) = y / √(mean of y² + ε) ∘ gain, per head, one gain for all

Before training e^a is uniform in (1, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed.

Source: Kimi Team, Kimi Linear, arXiv:2510.26692, section 3 and Eq. 1, and the authors' layer in flash-linear-attention,
which this computes. b_g is in that program only; Kimi Linear as published has none (`gate_bias: false`).
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.view import View
from seqloom.mixers.delta_by_channel import TRAITS, DeltaByChannel, DeltaByChannelSettings
from seqloom.ops.delta_rule.gated import gated
from seqloom.ops.delta_rule.reference import price
from seqloom.ops.fused.projection import convert_for_products


@final
class KDA(DeltaByChannel):
    """Kimi Delta Attention over `dim` channels. State: the convolution's last inputs, and S (B, H, K, K)."""

    def __init__(self, dim: int, config: "KDAConfig") -> None:
        super().__init__(dim, config, strengths=config.heads)

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        x = convert_for_products(x)
        convolved, window = self.conv(self.w_qkv(x), state, lengths)
        g, strength = self.log_decay(x), torch.sigmoid(self.w_b(x))  # (B, T, H, K), (B, T, H)
        old_state = state["S"] if state else None
        y, S = gated(convolved, g, strength, old_state, heads=self.heads, K=self.K, lengths=lengths)
        return self.w_o(self.norm(y, self.gate_out(self.gate_in(x)))), {**window, "S": S}

    @override
    def views(self, x: Stream) -> list[View]:
        strength = torch.sigmoid(self.w_b(x[0]))
        write = View("write", "how much of what a key reads is replaced: β", ("token", "head"), strength)
        return [self.decay_view(x[0]), write]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, n, H, K = span.rows, span.rows * self.dim, self.heads, self.K
        strengths = sigmoid(rows * H).parallel()
        scaled = Cost(mul=2 * n, exp=n, path=("multiplication",))  # erase and write
        return *self.prices_before(rows), strengths, scaled, price(rows, H, K, K, "channel"), self.norm, self.w_o


@register
class KDAConfig(DeltaByChannelSettings):
    """Kimi Delta Attention. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["kda"] = "kda"
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "rank": 2, "kernel": 2, "gate_bias": False})

    @override
    def make(self, layer: Layer) -> KDA:
        return KDA(layer.dim, self)
