"""Kimi Delta Attention: the gated delta rule in which each channel of the keys fades at a rate of its own.

    (q, k, v) = silu(conv(x W_qkv))             H heads of width K = D/H; no biases but b_a and b_g
    q, k over √(Σ² + 1e-6),   q / √K            per head
    g = -e^a softplus(x A₁ A₂ + b_a)            one for each channel of the keys, a per head; A₁ A₂ of rank R
    β = σ(x W_b)                                per head
    S' = diag(e^{g_t}) S_{t-1},   S_t = S' + β_t k_tᵀ (v_t - k_t S'),   y_t = q_t S_t                   per head
    out = (norm(y) ∘ σ(x G₁ G₂ + b_g)) W_o      norm(y) = y / √(mean of y² + ε) ∘ gain, per head, one gain for all

Before training e^a is uniform in (1, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed.

Source: Kimi Team, Kimi Linear, arXiv:2510.26692, section 3 and Eq. 1, and the authors' layer in flash-linear-attention,
which this computes. b_g is of the program there; Kimi Linear as published has none (`gate_bias`).
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
from seqloom.core.mixer_config import MixerConfig, Rounding, register
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
class KDA(PackedMixer):
    """Kimi Delta Attention over `dim` channels. State: the convolution's last inputs, and S (B, H, K, K)."""

    traits = TRAITS

    def __init__(self, dim: int, config: "KDAConfig") -> None:
        super().__init__()
        if dim % config.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {config.heads}: choose heads that divide dim")
        self.dim, self.heads, self.K = dim, config.heads, dim // config.heads
        rank = config.rank or self.K
        self.w_qkv, self.w_o = Linear(dim, 3 * dim, bias=False), Linear(dim, dim, bias=False)
        self.conv = ShortConvolution(3 * dim, config.kernel)
        self.decay_in, self.decay_out = Linear(dim, rank, bias=False), Linear(rank, dim)
        self.gate_in, self.gate_out = Linear(dim, rank, bias=False), Linear(rank, dim, bias=config.gate_bias)
        self.w_b = Linear(dim, self.heads, bias=False)
        self.a_log = nn.Parameter(torch.empty(self.heads))
        self.norm = HeadNorm(self.heads, self.K, "sigmoid", config.norm_eps)
        self._init()

    @override
    def reset(self, std: float) -> None:
        """The rates and the taps are drawn again too."""
        super().reset(std)
        self._init()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        rates = [self.a_log, self.decay_out.bias]
        rest = [parameter for parameter in self.parameters() if all(parameter is not rate for rate in rates)]
        return [{"params": rest}, {"params": rates, "weight_decay": 0.0}]

    @property
    @override
    def memory(self) -> Memory:
        return {"window": self.conv.entry, "S": Entry((self.heads, self.K, self.K), "wide")}

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        convolved, window = self.conv(self.w_qkv(x), state, lengths)
        g, strength = self._log_decay(x), torch.sigmoid(self.w_b(x))  # (B, T, H, K), (B, T, H)
        q, write, v, erase = (part.transpose(1, 2) for part in inputs(convolved, g.exp(), strength, self.heads, self.K))
        y, S = delta(q, write, v, erase, None, g.transpose(1, 2), state["S"] if state else None, lengths=lengths)
        return self.w_o(self.norm(y, self.gate_out(self.gate_in(x)))), {**window, "S": S}

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        # As `read`, in one call of C where it may be.
        layers = mixing.Layers(
            *(self.w_qkv, self.conv, self.w_b, self.norm, self.w_o, self.a_log),
            *(self.decay_in, self.decay_out, self.gate_in, self.gate_out),
        )
        found = mixing.token(x, state, reuse, layers, self.heads, 1.0)
        return super().advance(x, state, reuse) if found is None else found

    @override
    def views(self, x: Stream) -> list[View]:
        decay = self._log_decay(x[0]).exp().flatten(1)
        strength = torch.sigmoid(self.w_b(x[0]))
        return [
            View("decay", "how much of its channel of the state a token leaves", ("token", "channel"), decay),
            View("write", "how much of what a key reads is replaced: β", ("token", "head"), strength),
        ]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, n, H, K = span.rows, span.rows * self.dim, self.heads, self.K
        rates = Cost(mul=n, add=n, exp=n + rows * H, other=n + rows * H) + sigmoid(rows * H).parallel()
        read, rule = inputs_price(rows, H, H, K, K), price(rows, H, K, K, "channel")
        return self.w_qkv, self.conv, rates, read, rule, self.norm, self.w_o

    def _log_decay(self, x: Tensor) -> Tensor:
        """g (…, H, K)."""
        logits = self.decay_out(self.decay_in(x)).unflatten(-1, (self.heads, self.K))
        return -self.a_log.expand(logits.shape[:-1]).exp()[..., None] * softplus(logits)

    @torch.no_grad()
    def _init(self) -> None:
        self.conv.init()
        self.a_log.copy_(torch.rand_like(self.a_log).mul_(15).add_(1).log_())
        begin_steps_(self.decay_out.bias)


@register
class KDAConfig(MixerConfig):
    """Kimi Delta Attention. It looks back on everything: a context only sizes the model's positions."""

    kind: Literal["kda"] = "kda"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    rank: int = Field(0, ge=0, description="rank of the matrices of the decay and of the gate; 0 for a head's width")
    kernel: int = Field(4, ge=1, description="inputs that the convolution reads, the current one included")
    gate_bias: bool = Field(True, description="whether the gate has biases")
    norm_eps: float = Field(1e-5, gt=0, description="what is added to the mean square in each head's norm")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        384,
        "q, k and a head's output are each divided by the length of their few channels, which may be near 0: three "
        "times what such a norm may lose in `retention`; the rate's slope adds all tokens and channels, of both signs",
    )
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "rank": 2, "kernel": 2, "gate_bias": False})

    @override
    def make(self, layer: Layer) -> KDA:
        return KDA(layer.dim, self)
