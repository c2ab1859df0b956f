"""Dynamic convolution: a short convolution with taps computed from each token, by a softmax over lags in each head.

    u = (x W_a) ∘ σ(x W_b)                                          a gated linear unit; W_a, W_b are halves of W_in
    y_t = (Σ_{k<K} p_{t,k} ∘ u_{t-kδ}) W_out,   p_t = softmax_k(u_t W_taps)   K = `kernel`; a p for each of H heads

δ is `dilation`, how far apart the inputs of neighboring taps are. Bidirectional, the K taps, an odd number, lie around
t: u_{t-(k-(K-1)/2)δ}. u_t = 0 outside of the text: the weights of such positions are lost, as in the paper.

Source: Wu et al., Pay Less Attention, arXiv:1901.10430, sections 3 and 4; seed 000 names it by Tay et al.,
arXiv:2105.03322, who dilate convolutions as well. Left out: dropout of taps, biases.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, softmax
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.fused import gated_unit
from seqloom.ops.lag_sum import centered, taps
from seqloom.ops.past import ring
from seqloom.ops.past.pack import within

TRAITS = Traits(causal="always", streams=True, state="window")
NEVER = Traits(causal="never", streams=False, state="none")


class DynamicTaps(Mixer, ABC):
    """`kernel` taps per token and head, over `dim` channels: what both forms share."""

    def __init__(self, dim: int, heads: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.kernel, self.dilation = dim, heads, kernel, dilation
        self.w_in, self.w_out = Linear(dim, 2 * dim, bias=False), Linear(dim, dim, bias=False)
        self.w_taps = Linear(dim, heads * kernel, bias=False)

    @override
    def plots(self, x: Stream) -> list[View]:
        p = self._taps(gated_unit.gate_halves(self.w_in(x[:1])))[0, :, 0]
        return [
            View("taps of head 0", "the weight that each token gives the input at each lag", ("position", "lag"), p)
        ]

    def price_with(self, span: Span, summed: Cost) -> Iterable[Cost | nn.Module]:
        """The chain around the price of the sum."""
        tap_price = softmax(span.rows * self.heads, self.kernel)
        return self.w_in, gated_unit.price(span.rows * self.dim), self.w_taps, tap_price, summed, self.w_out

    def _taps(self, u: Tensor) -> Tensor:
        """The taps p (B, T, H, K)."""
        p: Tensor = self.w_taps(u).unflatten(-1, (self.heads, self.kernel)).softmax(-1)
        return p


def add_scaled(y: Tensor, p: Tensor, z: Tensor, first: int) -> Tensor:
    """y (B, T, H, D/H) plus p ∘ z at the positions of z, from `first` on, for taps p (B, T, H, 1).

    A new tensor, since a transform may have made a constant of y.
    """
    last = first + z.shape[1]
    sums = torch.addcmul(y[:, first:last], p[:, first:last], z)
    return sums if z.shape[1] == y.shape[1] else torch.cat([y[:, :first], sums, y[:, last:]], 1)


@final
class DynamicConv(DynamicTaps, CachingMixer):
    """The causal form. State: a ring of the last (K-1)δ of u."""

    traits = TRAITS

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"past": StateEntry((self.reach, self.dim))}

    @property
    def reach(self) -> int:
        """The distance from a token to its oldest input."""
        return (self.kernel - 1) * self.dilation

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        u = gated_unit.gate_halves(self.w_in(x))
        p = self._taps(u)
        if state is None:
            return self.w_out(self._sum_taps(u, p, u[:, :0])), {}
        length = length_of(state)
        past = ring.latest(state["past"], length.tokens, ring.count_filled(self.reach, length))
        y = self._sum_taps(u, p, past.to(u.dtype))
        if reuse:
            new_ring = ring.write_(state["past"], length.tokens, u[:, 0].detach())
        else:
            new_ring = ring.write(state["past"], length.tokens, u, lengths)
        return self.w_out(y), {"past": new_ring}

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.price_with(span, taps.price(span, self.dim, self.kernel, dilation=self.dilation))

    def _sum_taps(self, u: Tensor, p: Tensor, past: Tensor) -> Tensor:
        """Σ_k p_{t,k} ∘ u_{t-kδ} for u (B, T, D), taps p (B, T, H, K) and inputs `past` (B, P, D) before u."""
        T, P = u.shape[1], past.shape[1]
        p = p.unsqueeze(-1)
        z = torch.cat([past, u], 1).unflatten(-1, (self.heads, -1))  # (B, P + T, H, D/H)
        if T == 1:  # one product with the whole window
            window = z[:, P % self.dilation :: self.dilation][:, -self.kernel :]  # (B, N, H, D/H), N ≤ K, oldest first
            weights = p[:, 0, :, : window.shape[1]].flip(2).transpose(1, 2)  # (B, N, H, 1)
            return (weights * window).sum(1, keepdim=True).flatten(2)
        count = min(self.kernel, -(-(P + T) // self.dilation))  # taps for which some token has an input
        y = p[:, :, :, 0] * z[:, P:]
        for k in range(1, count):
            lag = k * self.dilation
            first = max(lag - P, 0)  # the first position that has an input at this lag
            y = add_scaled(y, p[:, :, :, k], z[:, P + first - lag : P + T - lag], first)
        return y.flatten(2)


@final
class BidirectionalDynamicConv(DynamicTaps, BidirectionalMixer):
    """The bidirectional form, with taps around each token."""

    traits = NEVER

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        u = gated_unit.gate_halves(self.w_in(x))
        p = self._taps(u)
        if lengths is not None:
            u = torch.where(within(lengths, x.shape[1])[:, :, None], u, 0.0)
        y: Tensor = self.w_out(self._sum_taps(u, p))
        return y

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.price_with(span, centered.price(span, self.dim, (self.kernel + 1) // 2, dilation=self.dilation))

    def _sum_taps(self, u: Tensor, p: Tensor) -> Tensor:
        """Σ_k p_{t,k} ∘ u_{t-(k-(K-1)/2)δ} for u (B, T, D) and taps p (B, T, H, K)."""
        T, middle, p = u.shape[1], self.kernel // 2, p.unsqueeze(-1)
        z = u.unflatten(-1, (self.heads, -1))  # (B, T, H, D/H)
        y = p[:, :, :, middle] * z
        for k in range(self.kernel):
            lag = (k - middle) * self.dilation
            first, last = max(lag, 0), T + min(lag, 0)  # the positions whose input at this lag is in the sequence
            if lag and first < last:
                y = add_scaled(y, p[:, :, :, k], z[:, first - lag : last - lag], first)
        return y.flatten(2)


@register
class DynamicConvConfig(MixerConfig):
    """Dynamic convolution: over `kernel` tokens, `dilation` apart, with taps computed from the token."""

    kind: Literal["dynamic_conv"] = "dynamic_conv"
    heads: int = Field(4, ge=1, description="heads, each with its own taps computed from the token; divides dim")
    kernel: int = Field(7, ge=1, description="width of the convolution, in tokens; odd if bidirectional")
    dilation: int = Field(1, ge=1, description="distance between the inputs of neighboring taps, in tokens")
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = (
        {"heads": 2, "kernel": 3},
        {"heads": 4, "kernel": 1},
        {"heads": 2, "kernel": 3, "dilation": 2},
    )

    @override
    def make(self, layer: Layer) -> DynamicTaps:
        """Raises ValueError for an even number of taps around a token."""
        if layer.causal:
            return DynamicConv(layer.dim, self.heads, self.kernel, self.dilation)
        centered.require_middle(self.kernel)
        return BidirectionalDynamicConv(layer.dim, self.heads, self.kernel, self.dilation)
