"""AFT-local: AFT-full whose biases are 0 outside of a window; tokens outside of it are averaged too.

    q = x W_q,  k = x W_k,  v = x W_v                                        no biases; k has one number per channel
    y_t = σ(q_t) ∘ (Σ_{j≤t} e^{k_j + w_{tj}} ∘ v_j) / (Σ_{j≤t} e^{k_j + w_{tj}})
    w_{tj} = u_t · r_j of width F = `bias_dim`, or an entry of a table if that is 0, for t - j < `window`, else 0
    out = y W_out                                                            t, j < context;   w is (u, r), or the table

Bidirectional, the sums reach to T, the window as far ahead as back: biases for |t - j| < `window`.

Tokens that have left the window have no bias, so the state is the window and one sum, for any number of tokens.

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103, Eq. 2, 3 and "Parameterization", which calls r v.
W_out is in none of its equations, but in its counts of parameters. The initialization of factors as N(0, 0.1²) and of a
table to 0 is ours. The table has one column per lag, without the zeros.
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
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.whole_average import WholeAverage
from seqloom.ops.biased_average import biases, memory
from seqloom.ops.biased_average.reference import factors_price, price
from seqloom.ops.biased_average.whole import by_lag, in_reach
from seqloom.ops.biased_average.whole import price as whole_price
from seqloom.ops.past.limit import positions

TRAITS = Traits(causal="always", streams=True, state="window")
NEVER = Traits(causal="never", streams=False, state="none")


class WindowBiases(Mixer, ABC):
    """What both forms share: biases for `context` positions inside a window."""

    causal: ClassVar[bool]

    def __init__(self, dim: int, context: int, window: int, bias_dim: int) -> None:
        super().__init__()
        self.dim, self.context, self.bias_dim = dim, context, bias_dim
        self.window = min(window, context)
        self._covers = window >= context
        traits = TRAITS if self.causal else NEVER
        self.traits = replace(traits, longest=context)  # biases exist for this many positions
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.w = nn.Parameter(self._initial_biases())

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        with torch.no_grad():
            self.w.copy_(self._initial_biases())

    @property
    @override
    def same_as(self) -> str | None:
        return "aft_full" if self._covers else None

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_k, self._biases(span), self._price_average(span), gate(span.rows * self.dim), self.w_out

    @abstractmethod
    def _biases(self, span: Span) -> Cost:
        """The price of computing the biases from their factors, if they have any."""

    @abstractmethod
    def _price_average(self, span: Span) -> Cost:
        """The price of the average."""

    def _initial_biases(self) -> Tensor:
        """The initial factors, or a table with a column for each lag, for lags of both signs if bidirectional."""
        lags = self.window if self.causal else 2 * self.window - 1
        return biases.initial(self.context, self.bias_dim, lags)


@final
class AFTLocal(WindowBiases, CachingMixer):
    """Causal AFT-local over `dim` channels. State: the keys and values of the window, and one sum."""

    causal = True

    @property
    @override
    def state_spec(self) -> StateSpec:
        return memory.entries(self.window, self.dim, self.dim)

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        """Raises ValueError beyond `context` positions; without a state, dropped positions count too."""
        t = positions("aft_local", self.context, x, state, lengths)
        w = biases.over_lags(self.w, t, self.window)
        k = self.w_k(x)
        v = self.w_v(x)
        average, entries = memory.carry(k, v, w, state, lengths, reuse)
        q = self.w_q(x)
        y = torch.sigmoid(q) * average
        return self.w_out(y), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        t = positions("aft_local", self.context, x)
        bias = biases.over_lags(self.w, t, self.window)
        meaning = "what is added to the key of an earlier token before the exponential, for each query"
        return [View("biases", meaning, ("query", "key"), biases.by_key(bias[0, :, :, 0]))]

    @override
    def _biases(self, span: Span) -> Cost:
        return factors_price(span.terms(self.window), self.bias_dim)

    @override
    def _price_average(self, span: Span) -> Cost:
        return price(span, self.window, self.dim, self.dim)


@final
class BidirectionalAFTLocal(WindowBiases, WholeAverage):
    """AFT-local over whole rows of at most `context` tokens."""

    causal = False

    @override
    def _biases(self, span: Span) -> Cost:
        return factors_price(span.rows**2, self.bias_dim)

    @override
    def _price_average(self, span: Span) -> Cost:
        return whole_price(span.rows, self.dim, self.dim)

    @override
    def table(self, x: Stream) -> Tensor:
        """The biases of every query and key (T, T), 0 outside the window. Raises ValueError beyond `context` tokens."""
        T = positions("aft_local", self.context, x).shape[1]
        if self.bias_dim:
            return in_reach(biases.pairs(self.w, T), self.window)
        return by_lag(self.w[:T, :, None], T)[0]


@register
class AFTLocalConfig(MixerConfig):
    """AFT with biases inside a window. It reads all of at most `context` tokens."""

    kind: Literal["aft_local"] = "aft_local"
    window: int = Field(32, ge=1, description="distances with a learned bias, 0 included")
    bias_dim: int = Field(128, ge=0, description="width of the factors of the biases; 0 for a plain table of them")
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = ({"window": 2, "bias_dim": 3}, {"window": 3, "bias_dim": 0}, {"bias_dim": 2})

    @override
    def make(self, layer: Layer) -> WindowBiases:
        """Raises ValueError without a context."""
        if layer.context is None or layer.context < 1:
            raise ValueError(
                f"aft_local needs a context of 1 or more, one for each position that has biases, not {layer.context}"
            )
        form = AFTLocal if layer.causal else BidirectionalAFTLocal
        return form(layer.dim, layer.context, self.window, self.bias_dim)
