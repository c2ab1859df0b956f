"""Elman's simple recurrent network: one state, rewritten at each token through a matrix and a tanh.

    h_t = tanh(x_t W_in + b + h_{t-1} W_state),  h_0 = 0        N = `state_dim` units, or D
    y_t = h_t W_out                                              no bias

There is a W_out even if N = D, so that outputs are not bounded by tanh.

Source: Elman, Finding Structure in Time, Cognitive Science 14, 1990. His units are logistic, and the gradient stops at
the previous state; today an RNN has tanh and gradients through all of time. W_state is initialized orthogonal, where
his weights are small. Seed 004 names it and prints no equation.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.recurrence import elman, orthogonal_
from seqloom.ops.recurrence.reference import elman_price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class Elman(PackedMixer):
    """A layer of N tanh units over `dim` channels. State: h (B, N)."""

    traits = TRAITS

    def __init__(self, dim: int, state_dim: int) -> None:
        super().__init__()
        self.dim, self.state_dim = dim, state_dim
        self.w_in, self.w_state = Linear(dim, state_dim), Linear(state_dim, state_dim, bias=False)
        self.w_out = Linear(state_dim, dim, bias=False)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """W_state is drawn orthogonal, whatever `std`."""
        super().reset(std)
        self._initialize()

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry((self.state_dim,), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        h, new_state = elman(x, *self._weights, state["h"] if state else None, lengths=lengths)
        return self.w_out(h), {"h": new_state}

    @override
    def plots(self, x: Stream) -> list[View]:
        """The states themselves."""
        h, _ = elman(x[:1], *self._weights)
        return [View("state", "what each unit holds after each token, between -1 and 1", ("position", "unit"), h[0])]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_in, self.w_state, elman_price(span.rows, self.state_dim), self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        orthogonal_(self.w_state.weight)
        self.w_in.bias.zero_()

    @property
    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """W_in, b and W_state, as `seqloom.ops.recurrence` takes them."""
        return self.w_in.weight, self.w_in.bias, self.w_state.weight


@register
class ElmanConfig(MixerConfig):
    """Elman's recurrent network. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["rnn"] = "rnn"
    state_dim: int = Field(0, ge=0, description="units of the state; 0 for as many as channels")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({}, {"state_dim": 3})

    @override
    def make(self, layer: Layer) -> Elman:
        return Elman(layer.dim, self.state_dim or layer.dim)
