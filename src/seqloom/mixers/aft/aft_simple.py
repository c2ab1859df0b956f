"""AFT-simple: an average over time by a softmax in each channel, gated by the current token.

    q = x W_q,  k = x W_k,  v = x W_v                                        no biases; k has one number per channel
    y_t = σ(q_t) ∘ (Σ_{j≤t} e^{k_j} ∘ v_j) / (Σ_{j≤t} e^{k_j})
    out = y W_out                                                            bidirectional: the sums reach to T

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103: AFT-full without its biases w. W_out is in none of
its equations, but in its counts of parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from torch import nn
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
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.wkv_average import sums_of, whole_average, wkv
from seqloom.ops.wkv_average.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")


class Projections(Mixer, ABC):
    """What both forms share: the four projections."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        D = self.dim
        return self.w_k, self._price_average(span), gate(span.rows * D), self.w_out

    @abstractmethod
    def _price_average(self, span: Span) -> Cost:
        """The price of the average."""


@final
class AFTSimple(Projections, PackedMixer):
    """Causal AFT-simple over `dim` channels. State: the two sums of each channel, and their scale."""

    traits = TRAITS

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"sums": sums_of(self.dim)}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        k = self.w_k(x)
        v = self.w_v(x)
        average, sums = wkv(k, v, state=state["sums"] if state else None, lengths=lengths)
        q = self.w_q(x)
        y = torch.sigmoid(q) * average
        return self.w_out(y), {"sums": sums}

    @override
    def plots(self, x: Stream) -> list[View]:
        k = self.w_k(x[0])
        later = torch.ones(len(k), len(k), dtype=torch.bool, device=k.device).triu(1)
        channel_weights = (c.expand(len(k), -1).masked_fill(later, float("-inf")).softmax(-1) for c in k.unbind(1))
        mean = sum(channel_weights, k.new_zeros(len(k), len(k))) / self.dim
        meaning = "how much of each key's value a query takes, mean of the channels"
        return [View("mean weights", meaning, ("query", "key"), mean)]

    @override
    def _price_average(self, span: Span) -> Cost:
        return price(span, self.dim, forgets=False)


@final
class BidirectionalAFTSimple(Projections, BidirectionalMixer):
    """AFT-simple over whole rows."""

    traits = Traits(causal="never", streams=False, state="none")

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        k = self.w_k(x)
        v = self.w_v(x)
        y = torch.sigmoid(self.w_q(x)) * whole_average(k, v, lengths)
        return self.w_out(y)

    @override
    def _price_average(self, span: Span) -> Cost:
        n, rows = span.rows * self.dim, min(span.rows, 1)  # one average for all tokens
        return Cost(
            mul=n,
            add=2 * (n - rows * self.dim),
            div=rows * self.dim,
            exp=n,
            path=("exponentiation", "multiplication", "cumulation", "division"),
        )


@register
class AFTSimpleConfig(MixerConfig):
    """AFT without positional biases. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["aft_simple"] = "aft_simple"
    traits: ClassVar = replace(TRAITS, causal="either")

    @override
    def make(self, layer: Layer) -> Projections:
        return AFTSimple(layer.dim) if layer.causal else BidirectionalAFTSimple(layer.dim)
