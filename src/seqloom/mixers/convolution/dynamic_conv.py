"""Dynamic convolution: a short convolution whose taps each token makes itself, a softmax over lags in each head.

    u = (x W_a) ∘ σ(x W_b)                                          a gated linear unit; W_a, W_b are halves of W_in
    y_t = (Σ_{k<K} p_{t,k} ∘ u_{t-kδ}) W_out,   p_t = softmax_k(u_t W_taps)   K = `kernel`; a p for each of H heads

δ is `dilation`, how far apart the inputs of neighboring taps are. u_t = 0 before the first token, whose share of the
softmax is lost, as in the paper.

Source: Wu et al., Pay Less Attention, arXiv:1901.10430, sections 3 and 4, as a causal decoder; seed 000 names it by Tay
et al., arXiv:2105.03322, who dilate convolutions as well. Left out: dropout of taps, biases.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

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
from seqloom.ops import gated_unit, ring
from seqloom.ops.lag_sum import taps
from seqloom.ops.projection import Linear

TRAITS = Traits(causal="always", streams=True, state="window")


@final
class DynamicConv(PackedMixer):
    """`kernel` taps a token for each of `heads` over `dim` channels. State: a ring of the last (K-1)δ of u."""

    traits = TRAITS

    def __init__(self, dim: int, heads: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.kernel, self.dilation = dim, heads, kernel, dilation
        self.w_in, self.w_out = Linear(dim, 2 * dim, bias=False), Linear(dim, dim, bias=False)
        self.w_taps = Linear(dim, heads * kernel, bias=False)

    @property
    @override
    def memory(self) -> Memory:
        return {"past": Entry((self.reach, self.dim))}

    @property
    def reach(self) -> int:
        """How far back the oldest input of a token is."""
        return (self.kernel - 1) * self.dilation

    @override
    def read(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        u = gated_unit.gated(self.w_in(x))
        p = self._taps(u)
        if state is None:
            return self.w_out(self._summed(u, p, u[:, :0])), {}
        length = length_of(state)
        past = ring.latest(state["past"], length.tokens, ring.held(self.reach, length))
        y = self._summed(u, p, past.to(u.dtype))
        if reuse:
            after = ring.write_(state["past"], length.tokens, u[:, 0].detach())
        else:
            after = ring.write(state["past"], length.tokens, u, lengths)
        return self.w_out(y), {"past": after}

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        y, entries = self.read(x[:, None], state, reuse=reuse)  # the window is written in place, not copied
        return y[:, 0], entries

    @override
    def views(self, x: Stream) -> list[View]:
        p = self._taps(gated_unit.gated(self.w_in(x[:1])))[0, :, 0]
        return [
            View("taps of head 0", "the weight that each token gives the input at each lag", ("position", "lag"), p)
        ]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        D, H, K = self.dim, self.heads, self.kernel
        summed = taps.price(span, D, K, dilation=self.dilation)
        return self.w_in, gated_unit.price(span.rows * D), self.w_taps, softmax(span.rows * H, K), summed, self.w_out

    def _taps(self, u: Tensor) -> Tensor:
        p: Tensor = self.w_taps(u).unflatten(-1, (self.heads, self.kernel)).softmax(-1)
        return p  # (B, T, H, K)

    def _summed(self, u: Tensor, p: Tensor, past: Tensor) -> Tensor:
        """Σ_k p_{t,k} ∘ u_{t-kδ} for u (B, T, D), taps p (B, T, H, K) and inputs `past` (B, P, D) before u."""
        T, P = u.shape[1], past.shape[1]
        p = p.unsqueeze(-1)
        z = torch.cat([past, u], 1).unflatten(-1, (self.heads, -1))  # (B, P + T, H, D/H)
        y = p[:, :, :, 0] * z[:, P:]
        reached = min(self.kernel, -(-(P + T) // self.dilation))  # taps for which some token has an input
        for k in range(1, reached):
            lag = k * self.dilation
            first = max(lag - P, 0)  # the first position that has an input so long ago
            y[:, first:] += p[:, first:, :, k] * z[:, P + first - lag : P + T - lag]
        return y.flatten(2)


@register
class DynamicConvConfig(MixerConfig):
    """Dynamic convolution: looks back on `kernel` tokens, `dilation` apart; the context only sizes positions."""

    kind: Literal["dynamic_conv"] = "dynamic_conv"
    heads: int = Field(4, ge=1, description="heads, for each of which a token makes taps; divides dim")
    kernel: int = Field(7, ge=1, description="tokens that it looks at, the current one included")
    dilation: int = Field(1, ge=1, description="distance between the inputs of neighboring taps, in tokens")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"heads": 2, "kernel": 3},
        {"heads": 4, "kernel": 2},
        {"heads": 2, "kernel": 3, "dilation": 2},
    )

    @override
    def make(self, layer: Layer) -> DynamicConv:
        return DynamicConv(layer.dim, self.heads, self.kernel, self.dilation)
