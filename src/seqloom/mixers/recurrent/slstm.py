"""sLSTM: a cell like the LSTM's whose gates grow exponentially, and whose matrices are block-diagonal by head.

    s = silu(conv(x) + b)
    ĩ, f̃ = s W_if + h_{t-1} R + b,   z̃, õ = x W_zo + h_{t-1} R + b          all of H blocks, one for each head
    c_t = σ(f̃) c_{t-1} + e^ĩ tanh(z̃),   n_t = σ(f̃) n_{t-1} + e^ĩ,   h_t = σ(õ) c_t / n_t
    out = LN(h) ∘ gain                                                       of each head

c and n are stored multiplied by e^{-m}, with m the running maximum of log σ(f̃) + m and ĩ. There is no output
projection: a feed-forward network follows. Before training W_if and W_zo are N(0, 2/5D), R = 0, and b = 0 but for f̃'s,
which in layer l of L is 5 - 12 (c/(K-1))^(0.3 + 1.3 l/(L-1)) in channel c of K. R, biases and gains are not decayed.

Source: Beck et al., xLSTM, arXiv:2405.04517, Eq. 8-17 and figure 10, and the authors' xlstm 2.0.6, whose layer this is.
There `fgate` computes ĩ and `igate` f̃. There m starts at 0 and is not used at a first token, which is the same as
here, where it starts at -∞. The paper's f may be exp, too; l counts the layers of this kind, theirs all blocks.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import nn
from torch.nn.functional import layer_norm
from typing_extensions import override

from seqloom.core.cost import Cost, Span, layernorm
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.block_linear import BlockLinear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.base import PackedMixer
from seqloom.ops.linear_decay.exponential_gate import NONE
from seqloom.ops.recurrence.slstm import slstm
from seqloom.ops.recurrence.slstm.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")
UNDECAYED = ("w_h.weight", "w_h.bias", "conv.bias", "gain")
"""parameters without weight decay"""


@final
class SLSTM(PackedMixer):
    """An sLSTM layer over `dim` channels. State: the convolution's last inputs, and h, c, n and m (B, D)."""

    traits = TRAITS

    def __init__(self, config: "SLSTMConfig", layer: Layer) -> None:
        super().__init__()
        D, H = layer.dim, config.heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}: choose heads that divide dim")
        self.dim, self.heads, self.layer = D, H, layer
        self.conv = ShortConvolution(D, config.kernel, bias=True)
        self.w_if, self.w_zo = (BlockLinear(D, 2 * D, H, bias=False) for _ in range(2))
        self.w_h = BlockLinear(D, 4 * D, H)
        self.gain = nn.Parameter(torch.empty(D))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """Initializes everything as above, whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        undecayed = [parameter for name, parameter in self.named_parameters() if name in UNDECAYED]
        others = [parameter for parameter in self.parameters() if all(parameter is not other for other in undecayed)]
        return [{"params": others}, {"params": undecayed, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        units = StateEntry((self.dim,), "wide")
        return {
            "window": self.conv.entry,
            "h": units,
            "c": units,
            "n": units,
            "m": StateEntry((self.dim,), "wide", NONE),
        }

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        s, window = self.conv(x, state, lengths)
        logits = [y.unflatten(-1, (self.heads, -1)) for y in (self.w_if(s), self.w_zo(x))]
        old_state = (state["h"], state["c"], state["n"], state["m"]) if state else None
        h, (last, c, n, m) = slstm(torch.cat(logits, -1), *self.w_h.weight_and_bias, old_state, lengths=lengths)
        heads = h.unflatten(-1, (self.heads, -1))
        out = layer_norm(heads, heads.shape[-1:], eps=1e-5).flatten(-2) * self.gain
        return out, {**window, "h": last, "c": c, "n": n, "m": m}

    @override
    def plots(self, x: Stream) -> list[View]:
        s, _ = self.conv(x[:1])
        logits = [y.unflatten(-1, (self.heads, -1)) for y in (self.w_if(s), self.w_zo(x[:1]))]
        h, _ = slstm(torch.cat(logits, -1), *self.w_h.weight_and_bias)
        return [View("state", "what each unit puts out after each token, before the norm", ("token", "unit"), h[0])]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        normed = layernorm(span.rows * self.heads, self.dim // self.heads, gain=False, bias=False)
        gained = Cost(mul=span.rows * self.dim, path=("multiplication",))
        return self.conv, self.w_if, self.w_h, price(span.rows, self.dim), normed, gained

    @torch.no_grad()
    def _initialize(self) -> None:
        self.conv.init()
        for block in (self.w_if, self.w_zo):
            nn.init.normal_(block.weight, std=(2 / (5 * self.dim)) ** 0.5)
        for parameter in self.w_h.parameters():
            nn.init.zeros_(parameter)
        K, p = self.dim // self.heads, self.layer.number / max(self.layer.depth - 1, 1)  # p = l/(L-1)
        channel = torch.arange(K, device=self.device) / max(K - 1, 1)
        self.w_h.weight_and_bias[1][:, K : 2 * K] = 5 - 12 * channel ** (0.3 + 1.3 * p)
        nn.init.ones_(self.gain)


@register
class SLSTMConfig(MixerConfig):
    """An sLSTM layer. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["slstm"] = "slstm"
    heads: int = Field(4, ge=1, description="heads; the recurrent matrix connects the units of a head; divides dim")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "kernel": 2})

    @override
    def make(self, layer: Layer) -> SLSTM:
        return SLSTM(self, layer)
