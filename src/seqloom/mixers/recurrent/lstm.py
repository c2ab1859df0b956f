"""The LSTM: a cell that sums new values, weighted by an input gate, and decays by a forget gate.

    i, f, g, o = x_t W_in + b + h_{t-1} W_state                  N = `state_dim` units each, or D;  h_0 = c_0 = 0
    c_t = σ(f) ∘ c_{t-1} + σ(i) ∘ tanh(g)
    h_t = σ(o) ∘ tanh(c_t),   y_t = h_t W_out                    no bias

There is a W_out even if N = D, so that outputs are not bounded by tanh.

Source: Hochreiter and Schmidhuber, Long Short-Term Memory, Neural Computation 9, 1997; the forget gate is of Gers,
Schmidhuber and Cummins, Learning to Forget, 2000. As is usual today, inputs and outputs pass tanh instead of scaled
logistic functions, and gradients flow through all of time, not only through c. The bias of f is initialized to 1
(Jozefowicz et al., 2015; positive in Gers et al. too), W_state orthogonal, gate by gate.
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
from seqloom.ops.recurrence import lstm, orthogonal_
from seqloom.ops.recurrence.reference import lstm_price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class LSTM(PackedMixer):
    """A layer of N cells over `dim` channels. State: outputs h and cells c, (B, N) each."""

    traits = TRAITS

    def __init__(self, dim: int, state_dim: int, forget_bias: float) -> None:
        super().__init__()
        self.dim, self.state_dim, self.forget_bias = dim, state_dim, forget_bias
        self.w_in, self.w_state = Linear(dim, 4 * state_dim), Linear(state_dim, 4 * state_dim, bias=False)
        self.w_out = Linear(state_dim, dim, bias=False)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """W_state is drawn orthogonal and f has its bias, whatever `std`."""
        super().reset(std)
        self._initialize()

    @property
    @override
    def state_spec(self) -> StateSpec:
        units = StateEntry((self.state_dim,), "wide")
        return {"h": units, "c": units}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        old_state = (state["h"], state["c"]) if state else None
        y, (h, c) = lstm(x, *self._weights, old_state, lengths=lengths)
        return self.w_out(y), {"h": h, "c": c}

    @override
    def plots(self, x: Stream) -> list[View]:
        """How far each gate is open at each token, and what is put out."""
        h, _ = lstm(x[:1], *self._weights)
        h_before = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
        i, f, _, o = torch.sigmoid(self.w_in(x[:1]) + self.w_state(h_before))[0].chunk(4, -1)
        return [
            View("input gate", "how much of the token each unit lets in, from 0 to 1", AXES, i),
            View("forget gate", "how much of its cell each unit keeps, from 0 to 1", AXES, f),
            View("output gate", "how much of its cell each unit shows, from 0 to 1", AXES, o),
            View("state", "what each unit puts out after each token, between -1 and 1", AXES, h[0]),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_in, self.w_state, lstm_price(span.rows, self.state_dim), self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        orthogonal_(self.w_state.weight)
        self.w_in.bias.zero_()
        self.w_in.bias[self.state_dim : 2 * self.state_dim] = self.forget_bias

    @property
    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """W_in, b and W_state, as `seqloom.ops.recurrence` takes them."""
        return self.w_in.weight, self.w_in.bias, self.w_state.weight


AXES = ("position", "unit")


@register
class LSTMConfig(MixerConfig):
    """Long short-term memory (LSTM). It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["lstm"] = "lstm"
    state_dim: int = Field(0, ge=0, description="units of the state; 0 for as many as channels")
    forget_bias: float = Field(1.0, description="initial bias of the forget gates")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({}, {"state_dim": 3, "forget_bias": 0.0})

    @override
    def make(self, layer: Layer) -> LSTM:
        return LSTM(layer.dim, self.state_dim or layer.dim, self.forget_bias)
