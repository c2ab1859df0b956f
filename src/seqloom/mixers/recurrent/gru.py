"""The GRU: an update gate moves the state towards a new value, in which a reset gate weights the old state.

    r, z = σ((x_t W_in + b + h_{t-1} W_state)_{r, z})            N = `state_dim` units each, or D;  h_0 = 0
    n = tanh((x_t W_in + b)_n + (r ∘ h_{t-1}) W_n)               `reset` before; W_n is the last of W_state
    n = tanh((x_t W_in + b)_n + r ∘ (h_{t-1} W_n + b_n))         `reset` after
    h_t = (1 - z) ∘ n + z ∘ h_{t-1},   y_t = h_t W_out           no bias

There is a W_out even if N = D, so that outputs are not bounded by tanh.

Source: Cho et al., arXiv:1406.1078, Eq. 5-8, where the reset comes before the matrix and biases are left out of the
equations to save space; cuDNN and torch, where it comes after. W_state is initialized orthogonal, as in the paper's
appendix A, here gate by gate. Seed 004 names the GRU and does not say which it is; the gate that seed 002 prints for
GTrXL resets before. Chung et al., arXiv:1412.3555, and that gate swap z and 1 - z.
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
from seqloom.ops.recurrence import gru, gru_after, orthogonal_
from seqloom.ops.recurrence.reference import gru_price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class GRU(PackedMixer):
    """A layer of N gated units over `dim` channels. State: h (B, N)."""

    traits = TRAITS

    def __init__(self, dim: int, state_dim: int, reset_after: bool) -> None:
        super().__init__()
        self.dim, self.state_dim = dim, state_dim
        self.w_in, self.w_state = Linear(dim, 3 * state_dim), Linear(state_dim, 3 * state_dim, bias=False)
        self.b_n = nn.Parameter(torch.empty(state_dim)) if reset_after else None
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
        h, new_state = self._units(x, state["h"] if state else None, lengths)
        return self.w_out(h), {"h": new_state}

    @override
    def plots(self, x: Stream) -> list[View]:
        """How far each gate is open at each token, and the states."""
        h, _ = self._units(x[:1])
        h_before = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
        r, z, _ = torch.sigmoid(self.w_in(x[:1]) + self.w_state(h_before))[0].chunk(3, -1)
        return [
            View("reset gate", "how much of the old state enters each unit's new value, from 0 to 1", AXES, r),
            View("update gate", "how much of its state each unit keeps, from 0 to 1", AXES, z),
            View("state", "what each unit holds after each token, between -1 and 1", AXES, h[0]),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_in, self.w_state, gru_price(span.rows, self.state_dim, self.b_n is not None), self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        orthogonal_(self.w_state.weight)
        self.w_in.bias.zero_()
        if self.b_n is not None:
            self.b_n.zero_()

    def _units(self, x: Stream, h: Tensor | None = None, lengths: Lengths | None = None) -> tuple[Tensor, Tensor]:
        """h at each token (B, T, N) and after the last, from the one before the first."""
        weights = self.w_in.weight, self.w_in.bias, self.w_state.weight
        if self.b_n is None:
            return gru(x, *weights, h, lengths=lengths)
        return gru_after(x, *weights, self.b_n, h, lengths=lengths)


AXES = ("position", "unit")


@register
class GRUConfig(MixerConfig):
    """Gated recurrent units (GRU). It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["gru"] = "gru"
    state_dim: int = Field(0, ge=0, description="units of the state; 0 for as many as channels")
    reset: Literal["before", "after"] = Field(
        "before", description="whether the state is reset before its matrix (Cho et al.) or after it (cuDNN, torch)"
    )
    traits: ClassVar = TRAITS
    examples: ClassVar = ({}, {"reset": "after"}, {"state_dim": 3}, {"state_dim": 3, "reset": "after"})

    @override
    def make(self, layer: Layer) -> GRU:
        return GRU(layer.dim, self.state_dim or layer.dim, self.reset == "after")
