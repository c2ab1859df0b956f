"""The gated delta rule: a matrix state that decays, and in which a token's value replaces the one that its key reads.

    (q, k, v) = silu(conv(x W_qkv))             H heads of keys, together ¾D wide; H' heads of values, of width V = 2K
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6); H'/H heads of v share one of q and k
    g = -e^a softplus(x W_a + b_a),   β = σ(x W_b), or 2σ(x W_b)                                    per head of values
    S' = e^{g_t} S_{t-1},   S_t = S' + β_t k_tᵀ (v_t - k_t S'),   y_t = q_t S_t
    out = (norm(y) ∘ silu(x W_g)) W_o           norm(y) = y / √(mean of y² + ε) ∘ gain, per head; no biases but b_a

Before training e^a is uniform in (0, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed. With β
above 1 (`negative`) the transitions I - β kᵀk have negative eigenvalues, with which the mixer can count
(arXiv:2411.12537).

Source: Yang et al., Gated Delta Networks, arXiv:2412.06464, and the authors' flash-linear-attention, which this
computes. The paper's Eq. 10 has α_t = e^{g_t}; the computation of α, as in Mamba-2, and √K are only in the program.
Qwen3-Next has `value_heads` twice the heads, and widths of its own.
"""

from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.core.shapes import Stream
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.delta_heads import TRAITS, DeltaHeads, WidthSettings


@final
class GatedDelta(DeltaHeads):
    """The gated delta rule over `dim` channels. State: the convolution's last inputs, and S (B, H', K, V)."""

    decay = "head"

    def __init__(self, dim: int, config: "GatedDeltaConfig") -> None:
        super().__init__(dim, *config.widths(dim), config.negative)
        columns = self.value_heads * self.V
        channels = 2 * self.heads * self.K + columns
        self.w_qkv = Linear(dim, channels, bias=False)
        self.conv = ShortConvolution(channels, config.kernel)
        self.w_a, self.w_b = Linear(dim, self.value_heads), Linear(dim, self.value_heads, bias=False)
        self.a_log = nn.Parameter(torch.empty(self.value_heads))
        self.w_g, self.w_o = Linear(dim, columns, bias=False), Linear(columns, dim, bias=False)
        self.norm = HeadNorm(self.value_heads, self.V, "silu", config.norm_eps)
        self.initialize()

    @property
    @override
    def rate_layer(self) -> Linear:
        return self.w_a

    @override
    def gate(self, x: Stream) -> Tensor:
        return self.w_g(x)


@register
class GatedDeltaConfig(WidthSettings):
    """The gated delta rule. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["gated_delta"] = "gated_delta"
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"heads": 2, "negative": True},
        {"heads": 1, "value_heads": 2, "key_width": 4, "value_width": 3, "kernel": 2},
    )

    @override
    def make(self, layer: Layer) -> GatedDelta:
        return GatedDelta(layer.dim, self)
