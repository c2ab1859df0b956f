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

from collections.abc import Iterable
from typing import ClassVar, Literal, final

from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.layers.linear import Linear
from seqloom.mixers.delta_by_head import TRAITS, DeltaByHead, DeltaByHeadSettings
from seqloom.ops.delta_rule.gated import gated
from seqloom.ops.delta_rule.reference import price
from seqloom.ops.fused.projection import convert_for_products


@final
class GatedDelta(DeltaByHead):
    """The gated delta rule over `dim` channels. State: the convolution's last inputs, and S (B, H', K, V)."""

    w_a: Linear
    a_log: nn.Parameter
    w_g: Linear

    def __init__(self, dim: int, config: "GatedDeltaConfig") -> None:
        super().__init__(dim, config)

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        x = convert_for_products(x)
        convolved, window = self.conv(self.w_qkv(x), state, lengths)
        g, strength = self.log_decay(x), self.strength(x).squeeze(-2)  # (B, T, H')
        old_state = state["S"] if state else None
        y, S = gated(convolved, g, strength, old_state, heads=self.heads, K=self.K, lengths=lengths)
        return self.w_o(self.norm(y, self.w_g(x))), {**window, "S": S}

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, H = span.rows, self.value_heads
        scaled = Cost(mul=2 * rows * H * self.K, exp=rows * H, path=("multiplication",))  # erase and write
        return *self.prices_before(rows), scaled, price(rows, H, self.K, self.V, "head"), self.norm, self.w_o


@register
class GatedDeltaConfig(DeltaByHeadSettings):
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
