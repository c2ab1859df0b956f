"""S6: a diagonal state space in each channel, whose step, input and output are chosen by the token.

    (r, B, C) = x W_x,   Δ = softplus(r W_Δ + b)                    r of R channels, B and C of N = `state_dim`
    h_t = e^{Δ_t A} ∘ h_{t-1} + Δ_t x_t B_t                          per channel; A = -e^`a_log`; h_0 = 0
    y_t = h_t · C_t + d ∘ x_t

Before training A_n = -n, softplus(b) is log-uniform from `dt_min` to `dt_max` and at least 1e-4, W_Δ uniform in
±R^(-1/2), d = 1.

Source: Gu & Dao, Mamba, arXiv:2312.00752, Algorithm 2 and section 3.6; d is from the authors' code. B is discretized by
Euler's rule as in that code, not by their Eq. 4. There is no output projection, as in Algorithm 2: channels are mixed
in Δ, B and C only. Seed 004 calls B, C and Δ matrices learned for each position; they are linear in the token.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import nn
from torch.nn import functional as F
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
from seqloom.ops.fused.projection import project
from seqloom.ops.scan.selective_scan import initial_weights, selective
from seqloom.ops.scan.selective_scan.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class S6(PackedMixer):
    """A selective scan over `dim` channels. State: h (B, D, N)."""

    traits = TRAITS

    def __init__(self, dim: int, config: "S6Config") -> None:
        super().__init__()
        self.dim, self.config, self.rank = dim, config, config.dt_rank or -(-dim // 16)
        N = config.state_dim
        self.x_proj, self.dt_proj = Linear(dim, self.rank + 2 * N, bias=False), Linear(self.rank, dim)
        self.a_log, self.d = nn.Parameter(torch.empty(dim, N)), nn.Parameter(torch.empty(dim))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """A, d, W_Δ and b return to their initial values or are drawn again, whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """A and d are not decayed."""
        matrices = [*self.x_proj.parameters(), *self.dt_proj.parameters()]
        return [{"params": matrices}, {"params": [self.a_log, self.d], "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry(tuple(self.a_log.shape), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        N = self.config.state_dim
        rank, B, C = self.x_proj(x).split((self.rank, N, N), -1)
        delta = project(rank, self.dt_proj.weight)  # the scan adds its bias
        bias = self.dt_proj.bias
        old_state = state["h"] if state else None
        y, h = selective(x, delta, self.a_log, B, C, old_state, bias=bias, skip=self.d, lengths=lengths)
        return y, {"h": h}

    @override
    def plots(self, x: Stream) -> list[View]:
        """The step that each token takes, and how fast each state is forgotten."""
        rank = self.x_proj(x[:1])[..., : self.rank]
        return [
            View(
                "step",
                "how far each token moves each channel's states: its Δ",
                ("position", "channel"),
                F.softplus(self.dt_proj(rank))[0],
            ),
            View("rate", "how fast each state is forgotten: -A, times Δ", ("channel", "state"), self.a_log.exp()),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.x_proj, self.dt_proj, price(span.rows, self.dim, self.config.state_dim, gate=False)

    def _initialize(self) -> None:
        weights = self.a_log, self.dt_proj.bias, self.d, self.dt_proj.weight
        initial_weights.initialize_(*weights, self.config.dt_min, self.config.dt_max)


@register
class S6Config(MixerConfig):
    """A selective state space alone. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["s6"] = "s6"
    state_dim: int = Field(16, ge=1, description="states of each channel")
    dt_rank: int = Field(0, ge=0, description="rank of the projection to the step sizes Δ; 0 for channels / 16")
    dt_min: float = Field(1e-3, gt=0, description="smallest initial step size Δ")
    dt_max: float = Field(0.1, gt=0, description="largest initial step size Δ")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({}, {"state_dim": 3, "dt_rank": 2})

    @model_validator(mode="after")
    def _in_order(self) -> "S6Config":
        if self.dt_min > self.dt_max:
            raise ValueError(f"the shortest step, {self.dt_min}, is longer than the longest, {self.dt_max}: swap them")
        return self

    @override
    def make(self, layer: Layer) -> S6:
        return S6(layer.dim, self)
