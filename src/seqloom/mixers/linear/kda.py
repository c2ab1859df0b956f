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

from typing import ClassVar, Literal, final

from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.mixers.delta_channels import ChannelSettings, DeltaChannels
from seqloom.mixers.delta_heads import TRAITS


@final
class KDA(DeltaChannels):
    """Kimi Delta Attention over `dim` channels. State: the convolution's last inputs, and S (B, H, K, K)."""

    def __init__(self, dim: int, config: "KDAConfig") -> None:
        super().__init__(dim, config, strengths=config.heads)


@register
class KDAConfig(ChannelSettings):
    """Kimi Delta Attention. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["kda"] = "kda"
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "rank": 2, "kernel": 2, "gate_bias": False})

    @override
    def make(self, layer: Layer) -> KDA:
        return KDA(layer.dim, self)
