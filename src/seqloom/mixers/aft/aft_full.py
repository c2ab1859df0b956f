"""AFT-full: attention whose weights depend on keys and on a bias for each pair of positions, but not on queries.

    q = x W_q,  k = x W_k,  v = x W_v                                        no biases; k has one number per channel
    y_t = σ(q_t) ∘ (Σ_{j≤t} e^{k_j + w_{tj}} ∘ v_j) / (Σ_{j≤t} e^{k_j + w_{tj}})
    w_{tj} = u_t · r_j of width F = `bias_dim`, or an entry of a table if that is 0;   t, j < context;   w = (u, r)
    out = y W_out                                                            bidirectional: the sums reach to T

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103, Eq. 2 and "Parameterization", which calls r v.
W_out is in none of its equations, but in its counts of parameters. The initialization of factors as N(0, 0.1²) and of a
table to 0 is ours. Seed 001 makes k a scalar, seed 004 sums to T; both omit the factors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.whole_average import WholeAverage
from seqloom.ops.biased_average import average, biases
from seqloom.ops.biased_average.memory import recall
from seqloom.ops.biased_average.reference import factors_price, price
from seqloom.ops.biased_average.whole import price as whole_price
from seqloom.ops.past import ring
from seqloom.ops.past.cache import remember_entries
from seqloom.ops.past.limit import positions

TRAITS = Traits(causal="always", streams=True, state="grows")
NEVER = Traits(causal="never", streams=False, state="none")


class PairBiases(Mixer, ABC):
    """The common part of both forms: a bias for each pair of `context` positions."""

    causal: ClassVar[bool]

    def __init__(self, dim: int, context: int, bias_dim: int) -> None:
        super().__init__()
        self.dim, self.context, self.bias_dim = dim, context, bias_dim
        traits = TRAITS if self.causal else NEVER
        self.traits = replace(traits, longest=context)  # biases exist for this many positions
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.w = nn.Parameter(biases.initial(context, bias_dim))

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        with torch.no_grad():
            self.w.copy_(biases.initial(self.context, self.bias_dim))

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_k, self._biases(span), self._price_average(span), gate(span.rows * self.dim), self.w_out

    @abstractmethod
    def _biases(self, span: Span) -> Cost:
        """The price of computing the biases from their factors, if they have any."""

    @abstractmethod
    def _price_average(self, span: Span) -> Cost:
        """The price of the average."""


@final
class AFTFull(PairBiases, CachingMixer):
    """Causal AFT-full over `dim` channels. State: keys and values of all tokens."""

    causal = True

    @property
    @override
    def state_spec(self) -> StateSpec:
        cache = StateEntry((0, self.dim), grows=True, max_slots=self.context)  # C positions, of which `length` are used
        return {"k": cache, "v": cache}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        """Raises ValueError beyond `context` positions; without a state, dropped positions count too."""
        t = positions("aft_full", self.context, x, state, lengths)
        k = self.w_k(x)
        v = self.w_v(x)
        past = None if state is None else _order_caches(state, v.dtype)
        past_tokens = 0 if past is None else past[0].shape[1]
        w = biases.over_keys(self.w, t, past_tokens + x.shape[1])
        y = torch.sigmoid(self.w_q(x)) * average(k, v, w, past)
        if state is None:
            return self.w_out(y), {}
        return self.w_out(y), remember_entries(state, {"k": k, "v": v}, lengths, reuse)

    @override
    def plots(self, x: Stream) -> list[View]:
        t = positions("aft_full", self.context, x)
        table = biases.by_key(biases.over_keys(self.w, t, x.shape[1])[0, :, :, 0])
        meaning = "what is added to the key of an earlier token before the exponential, for each query"
        return [View("biases", meaning, ("query", "key"), table)]

    @override
    def _biases(self, span: Span) -> Cost:
        return factors_price(span.terms(), self.bias_dim)

    @override
    def _price_average(self, span: Span) -> Cost:
        return price(span, None, self.dim, self.dim)


@final
class BidirectionalAFTFull(PairBiases, WholeAverage):
    """AFT-full over whole rows of at most `context` tokens."""

    causal = False

    @override
    def _biases(self, span: Span) -> Cost:
        return factors_price(span.rows**2, self.bias_dim)

    @override
    def _price_average(self, span: Span) -> Cost:
        return whole_price(span.rows, self.dim, self.dim)

    @override
    def table(self, x: Stream) -> Tensor:
        """The biases of every query and key of a row, (T, T). Raises ValueError beyond `context`."""
        T = positions("aft_full", self.context, x).shape[1]
        return biases.pairs(self.w, T)


def _order_caches(state: State, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The cached keys and values (B, C, D) in the order of time."""
    filled = ring.count_filled(state["k"].shape[1], length_of(state))
    k, v = recall(state["k"], state["v"], state["length"], filled)
    return k.to(dtype), v.to(dtype)


@register
class AFTFullConfig(MixerConfig):
    """AFT with a bias per pair of positions. It reads at most `context` tokens."""

    kind: Literal["aft_full"] = "aft_full"
    bias_dim: int = Field(128, ge=0, description="width of the factors of the biases; 0 for a plain table of them")
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = ({"bias_dim": 3}, {"bias_dim": 0})

    @override
    def make(self, layer: Layer) -> PairBiases:
        """Raises ValueError without a context."""
        if layer.context is None or layer.context < 1:
            raise ValueError(
                f"aft_full needs a context of 1 or more, one for each position that has biases, not {layer.context}"
            )
        form = AFTFull if layer.causal else BidirectionalAFTFull
        return form(layer.dim, layer.context, self.bias_dim)
