"""AFT-conv: the biases depend on the distance alone, one set per head, so that texts can have any length.

    q = x W_q,  v = x W_v,  k = x W_k                          k (T, H): one key per head, for its D/H channels
    y_t = σ(q_t) ∘ (Σ_{j≤t} e^{k_j + b_{t-j}} v_j) / (Σ_{j≤t} e^{k_j + b_{t-j}})           per head; b_l = 0 for l ≥ L
    b_l = γ (w_l - mean w) / √(var w + 1e-5) + β      L = `window`, mean and variance over the lags; per head
    out = y W_out                                     bidirectional: sums to T, b_l for |l| < L, 2L-1 of them per head

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103, Eq. 5 in one dimension and "Parameterization": γ
and β are initialized to 0, so that at first this is AFT-simple. The paper adds a convolution with e^b - 1 to the sum
over all tokens; `seqloom.ops.biased_average` adds a convolution with e^b to the sum over the tokens outside of the
window, which is equal and has no cancellation. The 1e-5 next to the variance is ours, since a window of 1 has the
variance 0. W_out is in none of the paper's equations, but in its counts of parameters.
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
from seqloom.ops.biased_average.reference import price, standard_price
from seqloom.ops.biased_average.whole import by_lag
from seqloom.ops.biased_average.whole import price as whole_price

TRAITS = Traits(causal="always", streams=True, state="window")


class DistanceBiases(Mixer, ABC):
    """What both forms share: biases by distance for each head."""

    causal: ClassVar[bool]

    def __init__(self, dim: int, heads: int, window: int) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.window = dim, heads, window
        self.w_q, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(3))
        self.w_k = Linear(dim, heads, bias=False)
        self.w = nn.Parameter(torch.empty(window if self.causal else 2 * window - 1, heads))
        self.gain, self.shift = (nn.Parameter(torch.empty(heads)) for _ in range(2))
        self._draw()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._draw()

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_k, self._taps(span), self._price_average(span), gate(span.rows * self.dim), self.w_out

    @abstractmethod
    def _taps(self, span: Span) -> Cost:
        """The price of computing the biases b from w, γ and β."""

    @abstractmethod
    def _price_average(self, span: Span) -> Cost:
        """The price of the average."""

    def _draw(self) -> None:
        nn.init.normal_(self.w)  # their scale is learned as γ
        nn.init.zeros_(self.gain)
        nn.init.zeros_(self.shift)


@final
class AFTConv(DistanceBiases, CachingMixer):
    """Causal AFT-conv over `dim` channels. State: the keys and values of the window, and one sum per head."""

    traits = TRAITS
    causal = True

    @property
    @override
    def state_spec(self) -> StateSpec:
        return memory.entries(self.window, self.heads, self.dim)

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        k = self.w_k(x)
        v = self.w_v(x)
        b = biases.standard(self.w, self.gain, self.shift, x.shape[1])
        average, entries = memory.carry(k, v, b, state, lengths, reuse)
        q = self.w_q(x)
        y = torch.sigmoid(q) * average
        return self.w_out(y), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        with torch.no_grad():
            b = biases.standard(self.w, self.gain, self.shift, 1)[0, 0]
        meaning = "what is added to the key of the token at each lag before the exponential"
        return [View("biases", meaning, ("lag", "head"), b)]

    @override
    def _taps(self, span: Span) -> Cost:
        return standard_price(span.rows, self.window, self.heads)  # priced per token, as in a step

    @override
    def _price_average(self, span: Span) -> Cost:
        return price(span, self.window, self.heads, self.dim)


@final
class BidirectionalAFTConv(DistanceBiases, WholeAverage):
    """AFT-conv over whole rows."""

    traits = Traits(causal="never", streams=False, state="none")
    causal = False

    @override
    def table(self, x: Stream) -> Tensor:
        b = biases.standard(self.w, self.gain, self.shift, 1)[0, 0]
        return by_lag(b, x.shape[1])

    @override
    def plots(self, x: Stream) -> list[View]:
        with torch.no_grad():
            b = biases.standard(self.w, self.gain, self.shift, 1)[0, 0]
        meaning = "what is added to the key of the token at each lag before the exponential, lag 0 in the middle"
        return [View("biases", meaning, ("lag", "head"), b)]

    @override
    def _taps(self, span: Span) -> Cost:
        return standard_price(min(span.rows, 1), 2 * self.window - 1, self.heads)

    @override
    def _price_average(self, span: Span) -> Cost:
        return whole_price(span.rows, self.heads, self.dim, tables=self.heads)


@register
class AFTConvConfig(MixerConfig):
    """AFT with biases by distance. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["aft_conv"] = "aft_conv"
    heads: int = Field(4, ge=1, description="heads, each with its own key and biases; divides dim")
    window: int = Field(32, ge=1, description="distances with a learned bias, 0 included")
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = ({"heads": 2, "window": 3}, {"heads": 8, "window": 1}, {"heads": 4})

    @override
    def make(self, layer: Layer) -> DistanceBiases:
        form = AFTConv if layer.causal else BidirectionalAFTConv
        return form(layer.dim, self.heads, self.window)
