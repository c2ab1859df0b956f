"""DeltaProduct: the gated delta rule with several steps per token, so that a token can rotate the state.

    (q, k, v) = silu(conv(x W_qkv))             n keys and values per token; H heads of keys, together ¾D wide
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6); H'/H heads of v per q, k; V = 2K
    g = -e^a softplus(x W_a + b_a)              per head of values; without `decay` there is no decay
    β = 2σ(x W_b), or σ(x W_b)                  per head of values and step
    S_{t,0} = e^{g_t} S_{t-1},   S_{t,j} = S_{t,j-1} + β_{t,j} k_{t,j}ᵀ (v_{t,j} - k_{t,j} S_{t,j-1})        j = 1 … n
    S_t = S_{t,n},   y_t = q_t S_t
    out = (norm(y) ∘ silu(x W_g)) W_o           norm(y) = y / √(mean of y² + ε) ∘ gain, per head; `gate: false`: no W_g

A token multiplies S by a product of n matrices I - β kᵀk. With β = 2 each is a reflection; by the theorem of Cartan and
Dieudonné n of them give any orthogonal matrix that changes at most n directions. So a token can permute n + 1 items in
any way, while with one step it can only swap two.

Source: Siems et al., DeltaProduct, arXiv:2502.10297, and the authors' flash-linear-attention, which this computes: the
convolution runs over tokens, with taps of its own for each step's keys and values; the decay comes before the first
step; β reaches 2 by default. The paper's DeltaProduct has `decay: false`, its Gated DeltaProduct the decay. Nothing
differs. With n = 1 it is `gated_delta`, or `delta` if decay and gate are off.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

from pydantic import Field
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.mixers.delta_by_head import TRAITS, DeltaByHead, DeltaByHeadSettings
from seqloom.ops.delta_rule.delta_steps import delta_steps
from seqloom.ops.delta_rule.delta_steps.reference import price
from seqloom.ops.fused.projection import convert_for_products


@final
class DeltaProduct(DeltaByHead):
    """DeltaProduct over `dim` channels. State: the convolution's last inputs, and S (B, H', K, V)."""

    def __init__(self, dim: int, config: "DeltaProductConfig") -> None:
        super().__init__(dim, config, config.steps, config.decay, config.gate)

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        x = convert_for_products(x)
        q, k, v, window = self.queries_keys_values(x, state, lengths)
        g = None if self.w_a is None else self.log_decay(x).transpose(1, 2)  # (B, H', T)
        strength = self.strength(x).movedim(-1, 1)  # (B, H', T, n)
        old_state = state["S"] if state else None
        y, S = delta_steps(q, k, v, strength, log_decay=g, state=old_state, lengths=lengths)
        z = None if self.w_g is None else self.w_g(x)
        return self.w_o(self.norm(y, z)), {**window, "S": S}

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        rule = price(span.rows, self.value_heads, self.K, self.V, self.steps, self.w_a is not None)
        return *self.prices_before(span.rows), rule, self.norm, self.w_o


@register
class DeltaProductConfig(DeltaByHeadSettings):
    """DeltaProduct. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["deltaproduct"] = "deltaproduct"
    negative: bool = Field(
        True, description="whether β reaches 2 instead of 1, so that transitions may have negative eigenvalues"
    )
    steps: int = Field(2, ge=1, description="steps of the delta rule per token, each with a key and a value: n")
    decay: bool = Field(True, description="whether the state decays, once per token")
    gate: bool = Field(
        True, description="whether the output of the heads is multiplied by a gate computed from the token"
    )
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        128,
        "a head's few channels are divided by their length, which may be near 0, as in `retention`; reflections and a "
        "state that does not decay keep every rounding",
    )
    examples: ClassVar = (
        {"heads": 2},
        {"heads": 1, "value_heads": 2, "key_width": 4, "value_width": 3, "kernel": 2, "steps": 3, "decay": False},
        {"heads": 2, "key_width": 3, "steps": 1, "negative": False, "gate": False},
    )

    @override
    def make(self, layer: Layer) -> DeltaProduct:
        return DeltaProduct(layer.dim, self)
