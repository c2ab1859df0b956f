"""IndRNN: a recurrent layer whose channels do not mix over time, so that each has one recurrent weight.

    z_t = x_t W
    h_t = tanh(a ∘ h_{t-1} + z_t)                 one weight a per channel of D
    y_t = h_t W_out

Source: Li et al., Independently Recurrent Neural Network, arXiv:1803.04831. What differs: tanh for ReLU, no bias, and
an output projection.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import nn
from typing_extensions import override

from my_kernel.recurrence import price, recur
from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.mixers.base import PackedMixer

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class IndRNN(PackedMixer):
    """A recurrence of independent channels between two projections. State: one vector."""

    traits = TRAITS

    def __init__(self, dim: int, weight: float) -> None:
        super().__init__()
        self.dim = dim
        self.w = nn.Linear(dim, dim, bias=False)
        self.w_out = nn.Linear(dim, dim, bias=False)
        self.a = nn.Parameter(torch.full((dim,), weight))

    @property
    @override
    def state_spec(self) -> StateSpec:
        """`h` (B, D): the channels after the last token, in float32 at least."""
        return {"h": StateEntry((self.dim,), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        z = self.w(x)
        h, last = recur(self.a, z, None if state is None else state["h"], lengths=lengths)
        return self.w_out(h), {"h": last}

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self.w, price(span.rows * self.dim), self.w_out


@register
class IndRNNConfig(MixerConfig):
    """A recurrent layer whose channels do not mix over time."""

    kind: Literal["indrnn"] = "indrnn"
    weight: float = Field(0.9, ge=-1, le=1, description="the recurrent weight of every channel at initialization")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({}, {"weight": 0.5})

    @override
    def make(self, layer: Layer) -> IndRNN:
        return IndRNN(layer.dim, self.weight)
