"""Additive attention: a small network computes the score of a query and a key, instead of their product.

    q = x W,   k = x U,   v = x W_v                         H heads of width K = D/H; no biases
    e_ij = w · tanh(q_i + k_j),   a_ij = e^{e_ij} / Σ_j' e^{e_ij'}          w of K channels per head
    out = concat_h(Σ_j a_ij v_j) W_out

Causal, sums run over j ≤ i and a state holds keys and values; bidirectional, over all j. With a `context` L, a token
attends to the L latest tokens, itself included, and as far ahead. Every pair takes K evaluations of tanh, which is far
slower than a product.

Source: Bahdanau et al., arXiv:1409.0473, Appendix A.1.2, where the queries are states s_i of a decoder and the keys
states h_j of an encoder: e_ij = v · tanh(W s_i + U h_j), which is one head without W_v and W_out. Here both are tokens
of one sequence, as in self-attention; w is the paper's v.
"""

from abc import ABC
from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.attention.additive import additive
from seqloom.ops.attention.additive.reference import price
from seqloom.ops.past.cache import past_and_new
from seqloom.ops.past.pack import within

TRAITS = Traits(causal="always", streams=True, state="grows")


class AdditiveHeads(Mixer, ABC):
    """The weights of both forms."""

    def __init__(self, layer: Layer, heads: int) -> None:
        super().__init__()
        D = layer.dim
        if D % heads:
            raise ValueError(f"dim {D} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.K, self.context = D, heads, D // heads, layer.context
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(D, D, bias=False) for _ in range(4))
        self.w = nn.Parameter(torch.empty(heads, self.K))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    def project(self, x: Stream) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, H, T, K)."""
        q, k, v = (w(x).unflatten(-1, (self.heads, self.K)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        return q, k, v

    def out(self, y: Tensor) -> Stream:
        """The output (B, T, D) of the mixer, from the outputs (B, H, T, K) of its heads."""
        out: Tensor = self.w_out(y.transpose(1, 2).flatten(2))
        return out

    @torch.no_grad()
    def _initialize(self) -> None:
        nn.init.normal_(self.w, std=self.K**-0.5)


@final
class Additive(AdditiveHeads, CachingMixer):
    """The causal form. State: keys and values, at most `context` of them."""

    traits = TRAITS

    @property
    @override
    def state_spec(self) -> StateSpec:
        cache = StateEntry((self.heads, 0, self.K), grows=True, axis=1, max_slots=self.context)
        return {"k": cache, "v": cache}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        q, k, v = self.project(x)
        if state is None:
            return self.out(additive(q, k, v, self.w, window=self.context)), {}
        past, entries = past_and_new(length_of(state), state, {"k": k, "v": v}, lengths, reuse)
        k, v = past.values
        y = additive(q, k, v, self.w, query_time=past.now, key_time=past.then, window=self.context)
        return self.out(y), entries

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_q, price(span.rows, span.terms(self.context), self.dim, self.heads), self.w_out


@final
class BidirectionalAdditive(AdditiveHeads, BidirectionalMixer):
    """The bidirectional form, over whole rows."""

    traits = Traits(causal="never", streams=False, state="none")

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        T = x.shape[1]
        time = torch.arange(T, device=x.device)
        then = None if lengths is None else torch.where(within(lengths, T), time, -1)
        q, k, v = self.project(x)
        return self.out(additive(q, k, v, self.w, causal=False, key_time=then, window=self.context))

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_q, price(span.rows, span.terms_around(self.context), self.dim, self.heads), self.w_out


@register
class AdditiveConfig(MixerConfig):
    """Additive self-attention."""

    kind: Literal["additive"] = "additive"
    heads: int = Field(4, ge=1, description="heads, each with its own scoring network; divides dim")
    traits: ClassVar = Traits(causal="either", streams=True, state="grows")
    examples: ClassVar = ({"heads": 2}, {"heads": 1})

    @override
    def make(self, layer: Layer) -> AdditiveHeads:
        return Additive(layer, self.heads) if layer.causal else BidirectionalAdditive(layer, self.heads)
