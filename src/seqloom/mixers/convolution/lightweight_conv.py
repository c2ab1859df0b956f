"""Lightweight convolution: a short convolution whose taps are a softmax over lags, shared by the channels of a head.

    u = (x W_a) ∘ σ(x W_b)                                          a gated linear unit; W_a, W_b are halves of W_in
    y_t = (Σ_{k<K} p_k ∘ u_{t-kδ}) W_out,   p_k = e^{w_k} / Σ_j e^{w_j}       K = `kernel`; w (K, H), u_t = 0 outside x

δ is `dilation`, how far apart the inputs of neighboring taps are. Bidirectional, the K taps, an odd number, lie around
t: u_{t-(k-(K-1)/2)δ}. Before training w is uniform, ±√(6 / (K + H K)).

Source: Wu et al., Pay Less Attention, arXiv:1901.10430, section 3; seed 000 names it by Tay et al., arXiv:2105.03322,
who train it in place of attention, and dilate convolutions as well. Left out: dropout of taps, biases.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, softmax
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.fused import gated_unit
from seqloom.ops.lag_sum import OP, centered, dilated, taps, window
from seqloom.ops.past.pack import within

TRAITS = Traits(causal="always", streams=True, state="window")
NEVER = Traits(causal="never", streams=False, state="none")


class LightweightTaps(Mixer, ABC):
    """`kernel` taps per head, over `dim` channels: what both forms share."""

    def __init__(self, dim: int, heads: int, kernel: int, dilation: int) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.kernel, self.dilation = dim, heads, kernel, dilation
        self.w_in, self.w_out = Linear(dim, 2 * dim, bias=False), Linear(dim, dim, bias=False)
        self.w = nn.Parameter(torch.empty(kernel, heads))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        # no weight decay of the logarithms of the taps: it would pull the weights of all lags to the same value
        return [{"params": [self.w_in.weight, self.w_out.weight]}, {"params": [self.w], "weight_decay": 0.0}]

    @override
    def plots(self, x: Stream) -> list[View]:
        return [View("taps", "the weight of the input at each lag", ("lag", "head"), self.w.softmax(0))]

    @torch.no_grad()
    def _initialize(self) -> None:
        bound = (6 / (self.kernel * (1 + self.heads))) ** 0.5
        self.w.uniform_(-bound, bound)


@final
class LightweightConv(LightweightTaps, CachingMixer):
    """The causal form. State: the last (K-1)δ of u."""

    traits = TRAITS

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"past": StateEntry(((self.kernel - 1) * self.dilation, self.dim))}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        u = gated_unit.gate_halves(self.w_in(x))
        p = self._taps(u)
        if self.dilation == 1:
            y, entries = window.carry(u, p, state, "past", lengths, reuse)
        else:
            y, entries = dilated.carry(u, p, self.dilation, state, "past", lengths, reuse)
        return self.w_out(y), entries

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        D, H, K = self.dim, self.heads, self.kernel
        tap_price = softmax(span.rows * H, K).parallel()  # priced per token, as in a step
        summed = taps.price(span, D, K, dilation=self.dilation)
        return self.w_in, gated_unit.price(span.rows * D), tap_price, summed, self.w_out

    def _taps(self, u: Tensor) -> Tensor:
        """The taps p (K, D). The reference computes them once per token, as they are priced: a step costs the same."""
        taps = self.w.repeat_interleave(self.dim // self.heads, 1)
        T = u.shape[1]
        if OP.choose(u, taps) == "reference":
            return self.w.expand(T, -1, -1).softmax(1)[0].repeat_interleave(self.dim // self.heads, 1)
        return self.w.softmax(0).repeat_interleave(self.dim // self.heads, 1)


@final
class BidirectionalLightweightConv(LightweightTaps, BidirectionalMixer):
    """The bidirectional form, with taps around each token."""

    traits = NEVER

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        u = gated_unit.gate_halves(self.w_in(x))
        if lengths is not None:
            u = torch.where(within(lengths, x.shape[1])[:, :, None], u, 0.0)
        p = self.w.softmax(0).repeat_interleave(self.dim // self.heads, 1)
        y: Tensor = self.w_out(dilated.sum_dilated(u, p, self.dilation, around=True))
        return y

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        tap_price = softmax(self.heads * min(span.T, 1), self.kernel).parallel()
        summed = centered.price(span, self.dim, (self.kernel + 1) // 2, dilation=self.dilation)
        return self.w_in, gated_unit.price(span.rows * self.dim), tap_price, summed, self.w_out


@register
class LightweightConvConfig(MixerConfig):
    """Convolution with a kernel for each head, over `kernel` tokens, `dilation` apart."""

    kind: Literal["lightweight_conv"] = "lightweight_conv"
    heads: int = Field(4, ge=1, description="heads, each with its own taps; divides dim")
    kernel: int = Field(7, ge=1, description="width of the convolution, in tokens; odd if bidirectional")
    dilation: int = Field(1, ge=1, description="distance between the inputs of neighboring taps, in tokens")
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = (
        {"heads": 2, "kernel": 3},
        {"heads": 8, "kernel": 1},
        {"heads": 2, "kernel": 3, "dilation": 2},
    )

    @override
    def make(self, layer: Layer) -> LightweightTaps:
        """Raises ValueError for an even number of taps around a token."""
        if layer.causal:
            return LightweightConv(layer.dim, self.heads, self.kernel, self.dilation)
        centered.require_middle(self.kernel)
        return BidirectionalLightweightConv(layer.dim, self.heads, self.kernel, self.dilation)
