"""The gated delta rule: a matrix that fades, and in which a token puts its value in the place of what its key reads.

    (q, k, v) = silu(conv(x W_qkv))             H heads of keys, together ¾D wide; H' heads of values, of width V = 2K
    q, k over √(Σ² + 1e-6),   q / √K            per head; each head of q and k serves H'/H heads of values
    g = -e^a softplus(x W_a + b_a),   β = σ(x W_b), or 2σ(x W_b)                                    per head of values
    S' = e^{g_t} S_{t-1},   S_t = S' + β_t k_tᵀ (v_t - k_t S'),   y_t = q_t S_t
    out = (norm(y) ∘ silu(x W_g)) W_o           norm(y) = y / √(mean of y² + ε) ∘ gain, per head; no biases but b_a

Before training e^a is uniform in (0, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed. β above 1
(`negative`) gives S eigenvalues below 0, with which it can count (arXiv:2411.12537).

Source: Yang et al., Gated Delta Networks, arXiv:2412.06464, and the authors' flash-linear-attention, which this
computes. The paper's Eq. 10 has α_t = e^{g_t}; how α is made, as in Mamba-2, and √K are in the program alone.
Qwen3-Next has `value_heads` twice the heads, and widths of its own.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State
from seqloom.core.view import View
from seqloom.mixers.base import PackedMixer
from seqloom.ops.delta_inputs import inputs
from seqloom.ops.delta_inputs.price import price as inputs_price
from seqloom.ops.delta_rule import delta, mixing
from seqloom.ops.delta_rule.price import price
from seqloom.ops.head_norm import HeadNorm
from seqloom.ops.projection import Linear
from seqloom.ops.selective_scan.beginning import begin_steps_
from seqloom.ops.short_convolution import ShortConvolution

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class GatedDelta(PackedMixer):
    """The gated delta rule over `dim` channels. State: the convolution's last inputs, and S (B, H', K, V)."""

    traits = TRAITS

    def __init__(self, dim: int, config: "GatedDeltaConfig") -> None:
        super().__init__()
        self.dim, self.heads, self.value_heads = dim, config.heads, config.value_heads or config.heads
        if not config.key_width and 3 * dim < 4 * self.heads:
            raise ValueError(f"3/4 of dim {dim} is too narrow for {self.heads} heads: choose fewer, or set key_width")
        if self.value_heads % self.heads:
            raise ValueError(f"{self.value_heads} value heads are no multiple of {self.heads} heads: choose one")
        self.K = config.key_width or 3 * dim // (4 * self.heads)
        self.V = config.value_width or 2 * self.K
        self.keys = self.heads, self.K
        self.strongest = 2.0 if config.negative else 1.0
        keys, values = self.heads * self.K, self.value_heads * self.V
        self.w_qkv = Linear(dim, 2 * keys + values, bias=False)
        self.conv = ShortConvolution(2 * keys + values, config.kernel)
        self.w_a, self.w_b = Linear(dim, self.value_heads), Linear(dim, self.value_heads, bias=False)
        self.a_log = nn.Parameter(torch.empty(self.value_heads))
        self.w_g, self.w_o = Linear(dim, values, bias=False), Linear(values, dim, bias=False)
        self.norm = HeadNorm(self.value_heads, self.V, "silu", config.norm_eps)
        self._init()

    @override
    def reset(self, std: float) -> None:
        """The rates and the taps are drawn again too."""
        super().reset(std)
        self._init()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        rates = [self.a_log, self.w_a.bias]
        rest = [parameter for parameter in self.parameters() if all(parameter is not rate for rate in rates)]
        return [{"params": rest}, {"params": rates, "weight_decay": 0.0}]

    @property
    @override
    def memory(self) -> Memory:
        return {"window": self.conv.entry, "S": Entry((self.value_heads, self.K, self.V), "wide")}

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        convolved, window = self.conv(self.w_qkv(x), state, lengths)
        g, strength = self._rates(x)  # (B, T, H')
        q, write, v, erase = (
            part.transpose(1, 2) for part in inputs(convolved, g.exp()[..., None], strength, *self.keys)
        )
        y, S = delta(q, write, v, erase, None, g.transpose(1, 2), state["S"] if state else None, lengths=lengths)
        return self.w_o(self.norm(y, self.w_g(x))), {**window, "S": S}

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        # As `read`, in one call of C where it may be.
        layers = mixing.Layers(
            *(self.w_qkv, self.conv, self.w_b, self.norm, self.w_o, self.a_log), rate=self.w_a, gate=self.w_g
        )
        found = mixing.token(x, state, reuse, layers, self.heads, self.strongest)
        return super().advance(x, state, reuse) if found is None else found

    @override
    def views(self, x: Stream) -> list[View]:
        g, strength = self._rates(x[0])
        return [
            View("decay", "how much of the state a token leaves", ("token", "head"), g.exp()),
            View("write", "how much of what a key reads is replaced: β", ("token", "head"), strength),
        ]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, H, K = span.rows, self.value_heads, self.K
        rates = Cost(mul=rows * H, add=rows * H, exp=2 * rows * H, other=2 * rows * H) + sigmoid(rows * H).parallel()
        doubled = Cost(mul=rows * H * (self.strongest != 1.0))
        read, rule = inputs_price(rows, self.heads, H, K, 1), price(rows, H, K, self.V, "head")
        return self.w_qkv, self.conv, read, rates, doubled, rule, self.norm, self.w_o

    def _rates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """g and β (…, H')."""
        logits = self.w_a(x)
        g = -self.a_log.expand_as(logits).exp() * softplus(logits)
        strength = torch.sigmoid(self.w_b(x))
        return g, strength if self.strongest == 1.0 else self.strongest * strength

    @torch.no_grad()
    def _init(self) -> None:
        self.conv.init()
        self.a_log.copy_(torch.rand_like(self.a_log).mul_(16).clamp_(min=1e-3).log_())
        begin_steps_(self.w_a.bias)


@register
class GatedDeltaConfig(MixerConfig):
    """The gated delta rule. It looks back on everything: a context only sizes the model's positions."""

    kind: Literal["gated_delta"] = "gated_delta"
    heads: int = Field(4, ge=1, description="heads of queries and keys")
    value_heads: int = Field(0, ge=0, description="heads of values, a multiple of heads; 0 for as many")
    key_width: int = Field(0, ge=0, description="width of a key; 0 for 3/4 of dim over all heads, rounded down")
    value_width: int = Field(0, ge=0, description="width of a value; 0 for twice that of a key")
    kernel: int = Field(4, ge=1, description="inputs that the convolution reads, the current one included")
    negative: bool = Field(False, description="a token may replace up to twice what its key reads")
    norm_eps: float = Field(1e-5, gt=0, description="what is added to the mean square in each head's norm")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"heads": 2, "negative": True},
        {"heads": 1, "value_heads": 2, "key_width": 4, "value_width": 3, "kernel": 2},
    )

    @override
    def make(self, layer: Layer) -> GatedDelta:
        return GatedDelta(layer.dim, self)
