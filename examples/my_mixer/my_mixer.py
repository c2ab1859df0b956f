"""Decayed mean: every token reads an exponentially weighted sum of all before it, with a learned decay per channel.

    a = σ(α)                                      one decay per channel of D, in (0, 1)
    s_t = a ∘ s_{t-1} + (1 - a) ∘ (x_t W)
    y_t = s_t W_out

Source: written for this example; the recurrence is that of an exponential moving average.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.mixers.base import PackedMixer

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class DecayedMean(PackedMixer):
    """An exponential moving average over `dim` channels, between two projections. State: one vector."""

    traits = TRAITS

    def __init__(self, dim: int, decay: float) -> None:
        super().__init__()
        self.dim = dim
        self.w = nn.Linear(dim, dim, bias=False)
        self.w_out = nn.Linear(dim, dim, bias=False)
        self.alpha = nn.Parameter(torch.logit(torch.full((dim,), decay)))

    @property
    @override
    def state_spec(self) -> StateSpec:
        """`sum` (B, D): s after the last token."""
        return {"sum": StateEntry((self.dim,))}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        a = self.alpha.sigmoid()
        b = 1 - a
        s = x.new_zeros(len(x), self.dim) if state is None else state["sum"]
        sums = []
        for t, z in enumerate(self.w(x).unbind(1)):
            after = a * s + b * z
            s = after if lengths is None else torch.where((t < lengths)[:, None], after, s)  # padding changes nothing
            sums.append(s)
        return self.w_out(torch.stack(sums, 1)), {"sum": s}

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        numbers = span.rows * self.dim
        decays = span.first * self.dim  # a and 1 - a, counted once, at the first token
        update = Cost(mul=2 * numbers, add=numbers, path=("multiplication", "addition"))
        return sigmoid(decays) + Cost(add=decays), self.w, update, self.w_out


@register
class DecayedMeanConfig(MixerConfig):
    """An exponential moving average with a learned decay per channel."""

    kind: Literal["decayed_mean"] = "decayed_mean"
    decay: float = Field(0.9, gt=0, lt=1, description="the decay of every channel at initialization")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({}, {"decay": 0.5})

    @override
    def make(self, layer: Layer) -> DecayedMean:
        return DecayedMean(layer.dim, self.decay)
