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

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.view import View
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.delta_heads import TRAITS, DeltaHeads, WidthSettings
from seqloom.ops.delta_rule.delta_steps import delta_steps
from seqloom.ops.delta_rule.delta_steps.reference import price
from seqloom.ops.delta_rule.keys import unit, unit_price


@final
class DeltaProduct(DeltaHeads):
    """DeltaProduct over `dim` channels. State: the convolution's last inputs, and S (B, H', K, V)."""

    def __init__(self, dim: int, config: "DeltaProductConfig") -> None:
        super().__init__(dim, *config.widths(dim), config.negative)
        self.decay, self.steps = "head" if config.decay else "none", config.steps
        H, columns = self.value_heads, self.value_heads * self.V
        self.sizes = [self.heads * self.K, self.steps * self.heads * self.K, self.steps * columns]
        """columns of W_q, W_k and W_v"""
        self.w_qkv = Linear(dim, sum(self.sizes), bias=False)
        self.conv = ShortConvolution(sum(self.sizes), config.kernel)
        self.w_a = Linear(dim, H) if config.decay else None
        self.w_b = Linear(dim, self.steps * H, bias=False)
        self.a_log = nn.Parameter(torch.empty(H)) if config.decay else None
        self.w_g = Linear(dim, columns, bias=False) if config.gate else None
        self.w_o = Linear(columns, dim, bias=False)
        self.norm = HeadNorm(H, self.V, "silu" if config.gate else "none", config.norm_eps)
        self.initialize()

    @property
    @override
    def rate_layer(self) -> Linear | None:
        return self.w_a

    @override
    def gate(self, x: Stream) -> Tensor | None:
        return None if self.w_g is None else self.w_g(x)

    @override
    def apply_rule(
        self, x: Stream, qkv: Float[Tensor, "B T C"], S: Tensor | None, lengths: Lengths | None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = qkv.split(self.sizes, -1)
        q = unit(q.unflatten(-1, (self.heads, self.K))).transpose(1, 2) / self.K**0.5
        k = unit(k.unflatten(-1, (self.steps, self.heads, self.K))).permute(0, 3, 1, 2, 4)  # (B, H, T, n, K)
        if self.value_heads > self.heads:
            q, k = (tensor.repeat_interleave(self.value_heads // self.heads, 1) for tensor in (q, k))
        v = v.unflatten(-1, (self.steps, self.value_heads, self.V)).permute(0, 3, 1, 2, 4)
        g, strength = self.log_decay(x), self._strengths(x).movedim(-1, 1)  # (B, H', T, n)
        log_decay = None if g is None else g.transpose(1, 2)
        return delta_steps(q, k, v, strength, log_decay=log_decay, state=S, lengths=lengths)

    def _strengths(self, x: Tensor) -> Tensor:
        """β (…, n, H') of tokens x (…, D)."""
        return self.strength(x).unflatten(-1, (self.steps, self.value_heads))

    @override
    def plots(self, x: Stream) -> list[View]:
        strengths, axes = self._strengths(x[0]), ("token", "head")
        meaning = "how much of what a key reads is replaced: β"
        names = ["write"] if self.steps == 1 else [f"write of step {j + 1}" for j in range(self.steps)]
        writes = [View(name, meaning, axes, strengths[:, j]) for j, name in enumerate(names)]
        return [*self.decay_views(x), *writes]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows = span.rows
        queries = Cost(div=rows * self.heads * self.K, path=("division",))
        normalized = unit_price(rows * (1 + self.steps) * self.heads, self.K) + queries
        strengths = self.strength_price(rows, self.steps)
        rule = price(rows, self.value_heads, self.K, self.V, self.steps, self.w_a is not None)
        return *self.prices_before(rows), normalized, strengths, rule, self.norm, self.w_o


@register
class DeltaProductConfig(WidthSettings):
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
