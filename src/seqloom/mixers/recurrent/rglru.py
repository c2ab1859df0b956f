"""RG-LRU in Griffin's recurrent block: each channel decays at a rate computed from its input, and keeps its variance.

    y = GELU(x W_y + b_y),   u = conv(x W_x + b_x)        E = `width` channels, or D; the convolution without silu
    r = σ(u W_r + b_r),   i = σ(u W_i + b_i)              W_r and W_i block-diagonal, one block per head
    log a_t = -8 r_t ∘ softplus(Λ)
    h_t = a_t ∘ h_{t-1} + √(1 - a_t²) ∘ (i_t ∘ u_t)       at the first token 1 instead of the root;  h_0 = 0
    out = (h ∘ y) W_o + b_o

1 - a² is computed as -(e^{2 log a} - 1) in one piece, and the derivative of the root is at most 1000. Before training
e^{-2 softplus(Λ)} is uniform in (0.9², 0.999²), W_r and W_i N(0, H/E), taps N(0, 0.01/W), biases 0; Λ is not decayed.

Source: De et al., Griffin, arXiv:2402.19427, sections 2.3 and 2.4, and the authors' recurrentgemma, which this
computes. The paper has a = σ(Λ), so that its Λ is minus this one, and initializes a^8 uniform in (0.9, 0.999) where the
program has a; the first token's 1, the bounded derivative and GELU by tanh are the program's.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import gelu
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gelu_tanh
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.block_linear import BlockLinear
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.base import PackedMixer
from seqloom.ops.fused.gated_decay import gate_decay
from seqloom.ops.fused.gated_decay.reference import price
from seqloom.ops.scan import scan
from seqloom.ops.scan.reference import price as scan_price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class RGLRU(PackedMixer):
    """Griffin's recurrent block over `dim` channels. State: the convolution's last inputs, and h (B, E)."""

    traits = TRAITS

    def __init__(self, dim: int, config: "RGLRUConfig") -> None:
        super().__init__()
        E, H = config.width or dim, config.heads
        if E % H:
            raise ValueError(f"{E} channels of the recurrence are not divisible by heads {H}: change heads or width")
        self.dim, self.width, self.heads = dim, E, H
        self.w_y, self.w_x, self.w_o = Linear(dim, E), Linear(dim, E), Linear(E, dim)
        self.conv = ShortConvolution(E, config.kernel, bias=True, silu=False)
        self.gates = BlockLinear(E, 2 * E, H)
        self.rate = nn.Parameter(torch.empty(E))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """Rates, gates and taps are drawn again too."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        others = [parameter for parameter in self.parameters() if parameter is not self.rate]
        return [{"params": others}, {"params": [self.rate], "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"window": self.conv.entry, "h": StateEntry((self.width,), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        u, window = self.conv(self.w_x(x), state, lengths)
        a, b = gate_decay(u, *self.gates.weight_and_bias, self.rate, _at_start(state))
        old_state = state["h"] if state else a.new_zeros(len(x), self.width)
        h, new_state = scan(a, b, old_state, lengths=lengths)
        return self.w_o(h.to(x.dtype) * gelu(self.w_y(x), approximate="tanh")), {**window, "h": new_state}

    @override
    def plots(self, x: Stream) -> list[View]:
        u, _ = self.conv(self.w_x(x[:1]))
        a, _ = gate_decay(u, *self.gates.weight_and_bias, self.rate, True)
        return [View("decay", "how much of its channel of the state a token leaves", ("token", "channel"), a[0])]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        E = self.width
        activation = gelu_tanh(span.rows * E).parallel()
        summed = scan_price(span.rows * E, False)
        gating = Cost(mul=span.rows * E, path=("multiplication",))
        return activation, self.w_x, self.conv, self.gates, price(span.rows * E), summed, gating, self.w_o

    @torch.no_grad()
    def _initialize(self) -> None:
        nn.init.normal_(self.conv.weight, std=(0.01 / len(self.conv.weight)) ** 0.5)
        assert self.conv.bias is not None
        nn.init.zeros_(self.conv.bias)
        self.gates.init()
        square = torch.empty_like(self.rate).uniform_(0.9**2, 0.999**2)
        self.rate.copy_(torch.log(torch.expm1(-square.log() / 2)))  # softplus(Λ) = -log(a²) / 2


def _at_start(state: State | None) -> Tensor | bool:
    """Whether the next token of each row is its first: (B,), or one value if all rows have read as many tokens."""
    if state is None:
        return True
    length = length_of(state)
    if length.even and length.bound is not None:
        return length.bound == 0
    return length.tokens == 0


@register
class RGLRUConfig(MixerConfig):
    """Griffin's recurrent block. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["rglru"] = "rglru"
    heads: int = Field(4, ge=1, description="diagonal blocks of the matrices of the gates; divides the width")
    width: int = Field(
        0, ge=0, description="channels of the recurrence; 0 for as many as the model's (Griffin: 4/3 of them)"
    )
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "width": 6, "kernel": 2})

    @override
    def make(self, layer: Layer) -> RGLRU:
        return RGLRU(layer.dim, self)
