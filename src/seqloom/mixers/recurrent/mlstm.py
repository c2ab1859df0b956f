"""mLSTM, the matrix memory of xLSTM: a sum of keys and values with an exponential input gate, over its normaliser.

    (u, z) = x W_up                                       E = `expand` D channels each; biases in convolution and gates
    c = silu(conv(u) + b),   q = c Q,   k = c K / √K,   v = u V          Q, K, V of `block` x `block` blocks
    log i = (q, k, v) W_i + b_i,   log f = log σ((q, k, v) W_f + b_f)        per head; `forget` exp: without log σ
    C_t = f C_{t-1} + i k_tᵀ v_t,   n_t = f n_{t-1} + i k_t                   per head, both times e^{-m}
    h_t = q_t C_t / (max(|q_t · n_t|, e^{-m_t}) + 1e-6)            m the running maximum, see `exponential_gate`
    y = ((norm(h) ∘ gain + skip ∘ c) ∘ silu(z)) W_down             norm: mean and variance of each head, ε = 1e-5

Before training W_i = W_f = 0, b_i ~ N(0, 0.1²), b_f from 3 to 6 over the heads, Q, K, V ~ N(0, 2/5D), skip = gain = 1.
With `forget` exp b_f is log σ of that: f is initialized to the same numbers below 1. With gates of e^3 and more the
first token's share would grow until no other token counts.

Source: Beck et al., xLSTM, arXiv:2405.04517, Eq. 19-27 and figure 11, and the authors' xlstm 2.0.6, which this
computes. The 1e-6 is the program's. It is added to a maximum that is scaled by e^{-m}, so the program's steps, whose m
starts at 0, differ from its whole sequences by about as much; here m starts at -∞ in both, as in its whole sequences.
The inputs of the gates include k before it is divided by √K.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm, logsigmoid, silu
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate, layernorm
from seqloom.core.graphs import is_transformed
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.base import PackedMixer
from seqloom.ops.fused.projection import project
from seqloom.ops.fused.small_blocks import products
from seqloom.ops.fused.small_blocks.reference import price as blocks_price
from seqloom.ops.linear_decay import decay_with_normalizer, exponential_gate
from seqloom.ops.linear_decay.exponential_gate import stabilize_gates
from seqloom.ops.linear_decay.reference import price
from seqloom.ops.linear_decay.weighted import quotient

TRAITS = Traits(causal="always", streams=True, state="constant")
EPS = 1e-6


@final
class MLSTM(PackedMixer):
    """An mLSTM block over `dim` channels.

    State: the convolution's last inputs, C with n as its last column (B, H, K, K+1), and m (B, H).
    """

    traits = TRAITS

    def __init__(self, dim: int, config: "MLSTMConfig") -> None:
        super().__init__()
        E, H, N = config.expand * dim, config.heads, config.block
        if E % H or E % N:
            raise ValueError(
                f"{config.expand} x {dim} channels do not divide into {H} heads and blocks of {N}: change one"
            )
        self.dim, self.config, self.inner, self.heads, self.K = dim, config, E, H, E // H
        self.w_up, self.w_down = Linear(dim, 2 * E, bias=False), Linear(E, dim, bias=False)
        self.conv = ShortConvolution(E, config.kernel, bias=True)
        self.qkv = nn.Parameter(torch.empty(3, E // N, N, N))
        self.w_gates = Linear(3 * E, 2 * H)
        self.gain, self.skip = (nn.Parameter(torch.empty(E)) for _ in range(2))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """Initializes all but W_up and W_down as above."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        vectors = [parameter for parameter in self.parameters() if parameter.ndim == 1]
        return [
            {"params": [parameter for parameter in self.parameters() if parameter.ndim > 1]},
            {"params": vectors, "weight_decay": 0.0},
        ]

    @property
    @override
    def state_spec(self) -> StateSpec:
        sums = StateEntry((self.heads, self.K, self.K + 1), "wide")
        return {"window": self.conv.entry, "C": sums, "m": StateEntry((self.heads,), "wide", exponential_gate.NONE)}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        u, z = (project(x, w) for w in self.w_up.weight.chunk(2))  # halves of one product would not be contiguous
        c, window = self.conv(u, state, lengths)
        q, k, v = (products(inputs, w) for inputs, w in zip((c, c, u), self.qkv, strict=True))
        gates = stabilize_gates(*self._gates(q, k, v), state["m"] if state else None, lengths)
        q, k, v = (tensor.unflatten(-1, (self.heads, self.K)).transpose(1, 2) for tensor in (q, k, v))  # (B, H, T, K)
        weight, old_state = gates.gain / self.K**0.5, state["C"] if state else None
        s, n, C = decay_with_normalizer(
            q, k, v.to(weight.dtype), gates.log_decay, old_state, weight=weight, lengths=lengths
        )
        m = gates.maximum
        denominator = torch.maximum(n.abs(), (-m.detach()).exp()) + _epsilon(m)
        y = quotient(s, denominator).to(x.dtype).transpose(1, 2)
        normed = layer_norm(y, y.shape[-1:], eps=1e-5).flatten(2)
        y = (normed * self.gain + self.skip * c) * silu(z)
        return self.w_down(y), {**window, "C": C, "m": gates.maximum[..., -1].clone()}

    @override
    def plots(self, x: Stream) -> list[View]:
        u, _ = self.w_up(x[:1]).chunk(2, -1)
        c, _ = self.conv(u)
        q, k, v = (products(inputs, w) for inputs, w in zip((c, c, u), self.qkv, strict=True))
        log_f, log_i = self._gates(q, k, v)
        axes = ("head", "token")
        return [
            View("forget gate", "how much of the memory a token leaves", axes, log_f[0].exp()),
            View("input gate", "the logarithm of what a token's value is multiplied by", axes, log_i[0]),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, E, H, K, N = span.rows, self.inner, self.heads, self.K, self.config.block
        n, heads = rows * E, rows * H
        blocks = blocks_price(3 * rows, E, N)
        forget = Cost(add=heads, exp=heads, other=heads) if self.config.forget == "sigmoid" else Cost()
        maximum = exponential_gate.price(rows, H)
        scaled = Cost(mul=n, div=heads, path=("division", "multiplication"))
        summed = price(rows, H, K, K + 1, "head")
        divided = Cost(add=heads, exp=heads, other=3 * heads, div=n, path=("other", "addition", "division"))
        norm = layernorm(heads, K, gain=False, bias=False)
        gained = Cost(mul=2 * n, add=n, path=("multiplication", "addition"))
        recurrence = (forget, maximum, scaled, summed, divided, norm, gained, gate(n))
        return self.w_up, self.conv, blocks, self.w_gates, *recurrence, self.w_down

    def _gates(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """log f and log i, both (B, H, T)."""
        log_i, log_f = self.w_gates(torch.cat([q, k, v], -1)).transpose(1, 2).chunk(2, 1)
        return logsigmoid(log_f) if self.config.forget == "sigmoid" else log_f, log_i

    @torch.no_grad()
    def _initialize(self) -> None:
        self.conv.init()
        nn.init.normal_(self.qkv, std=(2 / (5 * self.dim)) ** 0.5)
        nn.init.zeros_(self.w_gates.weight)
        nn.init.normal_(self.w_gates.bias[: self.heads], std=0.1)
        logits = torch.linspace(3, 6, self.heads)
        self.w_gates.bias[self.heads :].copy_(logits if self.config.forget == "sigmoid" else logsigmoid(logits))
        for parameter in (self.gain, self.skip):
            nn.init.ones_(parameter)


def _epsilon(m: Tensor) -> Tensor | float:
    """1e-6, with its gradient with respect to m.

    s, n and e^{-m} are scaled by e^{-m} with m as a constant, which cancels in the quotient but for this term.
    """
    return EPS * (m - m.detach()).exp() if torch.is_grad_enabled() or is_transformed() else EPS


@register
class MLSTMConfig(MixerConfig):
    """An mLSTM block. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["mlstm"] = "mlstm"
    heads: int = Field(4, ge=1, description="heads, each with a matrix; divides the channels inside")
    expand: int = Field(2, ge=1, description="ratio of the inner width to the model's")
    block: int = Field(4, ge=1, description="channels of a block of the projections to queries, keys and values")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    forget: Literal["sigmoid", "exp"] = Field("sigmoid", description="function of the forget gate's logit")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"heads": 2, "expand": 1, "kernel": 2},
        {"heads": 1, "expand": 1, "block": 2, "kernel": 2, "forget": "exp"},
    )

    @override
    def make(self, layer: Layer) -> MLSTM:
        return MLSTM(layer.dim, self)
