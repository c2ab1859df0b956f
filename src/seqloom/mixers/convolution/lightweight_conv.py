"""Lightweight convolution: a short convolution whose taps are a softmax over lags, shared by the channels of a head.

    u = (x W_a) ∘ σ(x W_b)                                          a gated linear unit; W_a, W_b are halves of W_in
    y_t = (Σ_{k<K} p_k ∘ u_{t-k}) W_out,   p_k = e^{w_k} / Σ_j e^{w_j}        K = `kernel`; w (K, H), u_t = 0 before x

Before training w is uniform, ±√(6 / (K + H K)).

Source: Wu et al., Pay Less Attention, arXiv:1901.10430, section 3, as a causal decoder; seed 000 names it by
Tay et al., arXiv:2105.03322, who train it in place of attention. Left out: dropout of taps, biases, dilation.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, softmax
from seqloom.core.layer import Layer
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View
from seqloom.mixers.base import PackedMixer
from seqloom.ops import gated_unit
from seqloom.ops.lag_sum import OP, taps, window
from seqloom.ops.projection import Linear

TRAITS = Traits(causal="always", streams=True, state="window")


@final
class LightweightConv(PackedMixer):
    """`kernel` taps for each of `heads` over `dim` channels. State: the last K-1 of u (B, K-1, D)."""

    traits = TRAITS

    def __init__(self, dim: int, heads: int, kernel: int) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.kernel = dim, heads, kernel
        self.w_in, self.w_out = Linear(dim, 2 * dim, bias=False), Linear(dim, dim, bias=False)
        self.w = nn.Parameter(torch.empty(kernel, heads))
        self._begin()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._begin()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        # The taps' logarithms are not decayed, which would make all lags alike.
        return [{"params": [self.w_in.weight, self.w_out.weight]}, {"params": [self.w], "weight_decay": 0.0}]

    @property
    @override
    def memory(self) -> Memory:
        return {"past": Entry((self.kernel - 1, self.dim))}

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        u = gated_unit.gated(self.w_in(x))
        p = self._taps(u)
        y, entries = window.carry(u, p, state, "past", lengths)
        return self.w_out(y), entries

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        # As `read`; the window is neither put in order nor copied.
        u = gated_unit.gated(self.w_in(x))
        p = self._taps(u[:, None])
        y, past = window.advance(u, p, state["past"], length_of(state), reuse)
        return self.w_out(y), {"past": past}

    @override
    def views(self, x: Stream) -> list[View]:
        return [View("taps", "the weight of the input at each lag", ("lag", "head"), self.w.softmax(0))]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        D, H, K = self.dim, self.heads, self.kernel
        soft = softmax(span.rows * H, K).parallel()  # priced per token, as in a step
        return self.w_in, gated_unit.price(span.rows * D), soft, taps.price(span, D, K), self.w_out

    def _taps(self, u: Tensor) -> Tensor:
        """(K, D); under the reference for each token again, so that a step costs what its token costs in a sequence."""
        taps = self.w.repeat_interleave(self.dim // self.heads, 1)
        T = u.shape[1]
        if OP.choose(u, taps) == "reference":
            return self.w.expand(T, -1, -1).softmax(1)[0].repeat_interleave(self.dim // self.heads, 1)
        return self.w.softmax(0).repeat_interleave(self.dim // self.heads, 1)

    @torch.no_grad()
    def _begin(self) -> None:
        bound = (6 / (self.kernel * (1 + self.heads))) ** 0.5
        self.w.uniform_(-bound, bound)


@register
class LightweightConvConfig(MixerConfig):
    """Lightweight convolution: looks back on `kernel` tokens; the context only sizes the model's positions."""

    kind: Literal["lightweight_conv"] = "lightweight_conv"
    heads: int = Field(4, ge=1, description="heads, each with taps of its own; divides dim")
    kernel: int = Field(7, ge=1, description="tokens that it looks back on, the current one included")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2, "kernel": 3}, {"heads": 8, "kernel": 2})

    @override
    def make(self, layer: Layer) -> LightweightConv:
        return LightweightConv(layer.dim, self.heads, self.kernel)
