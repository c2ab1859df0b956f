"""The linear state-space model: one continuous system of N states, whose input and output are all channels.

    x'(t) = A x(t) + B u(t),   y(t) = C x(t) + D u(t)             A (N, N); B, C, D are `b`, `c`, `d`; N = `state_dim`
    x_t = Ā x_{t-1} + B̄ u_t,   y_t = C x_t + D u_t                x_{-1} = 0;  Ā and B̄ by `method` from Δ = e^`log_step`
    bilinear  Ā = (I - Δ/2 A)^{-1} (I + Δ/2 A),   B̄ = (I - Δ/2 A)^{-1} Δ B
    zoh       Ā = e^{ΔA},                         B̄ = ∫_0^Δ e^{sA} ds B
    euler     Ā = I + Δ A,                        B̄ = Δ B

A is initialized to HiPPO's matrix of `measure`, Δ to `step`, and both are learned; B, C and D are plain projections.

Source: Kalman, A New Approach to Linear Filtering and Prediction Problems, 1960, without its noise; seed 004, Eq.
24-27, which leaves D out from Eq. 27 on, and whose Eq. 26 divides by A. B̄ is linear in B, so Δ is applied to B u,
which has N channels, instead of to B.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.state_space import outputs, run_joint
from seqloom.ops.state_space.discretise import Method
from seqloom.ops.state_space.hippo import MEASURES, Measure
from seqloom.ops.state_space.reference import joint_price

TRAITS = Traits(causal="always", streams=True, state="constant")
ROWS = 16
"""input channels whose responses are computed together"""


@final
class SSM(PackedMixer):
    """A system of N states over `dim` channels. State: x (B, N), as `h`."""

    traits = TRAITS

    def __init__(self, dim: int, state_dim: int, measure: Measure, method: Method, step: float) -> None:
        super().__init__()
        self.dim, self.state_dim, self.measure, self.method, self.step_size = dim, state_dim, measure, method, step
        self.a, self.log_step = nn.Parameter(torch.empty(state_dim, state_dim)), nn.Parameter(torch.empty(1))
        self.b, self.c = Linear(dim, state_dim, bias=False), Linear(state_dim, dim, bias=False)
        self.d = Linear(dim, dim, bias=False)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """A and Δ return to their initial values, whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """A and Δ are not decayed, as 0 is not a neutral value of them."""
        decayed = [project.weight for project in (self.b, self.c, self.d)]
        return [{"params": decayed}, {"params": [self.a, self.log_step], "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry((self.state_dim,), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        entries: Entries = {}
        if state is None:
            y = outputs("joint", x, self._system, self.method)
        else:
            y, entries["h"] = run_joint(x, self._system, self.method, state["h"], lengths=lengths)
        return self.d(x) + y, entries

    @override
    def plots(self, x: Stream) -> list[View]:
        """The response of each channel to inputs at each lag, and A."""
        power = torch.zeros_like(x[0])
        for impulses in torch.eye(self.dim, dtype=x.dtype, device=x.device).split(ROWS):
            inputs = torch.zeros_like(x[:1]).repeat(len(impulses), 1, 1)
            inputs[:, :1] = impulses[:, None]
            power = power + outputs("joint", inputs, self._system, self.method).square().sum(0)
        meaning = "root mean square of an output channel's weights of all inputs at each lag, without D"
        return [
            View("response", meaning, ("lag", "channel"), (power / self.dim).sqrt()),
            View(
                "A", "the rate at which each state changes by each state, per unit of time", ("state", "from"), self.a
            ),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, D, N = span.rows, self.dim, self.state_dim
        scaling = Cost(add=rows * D, exp=rows, path=("exponentiation",))  # Δ and Ā priced per token, as in a step
        return scaling, joint_price(rows, N, self.method), self.c

    @torch.no_grad()
    def _initialize(self) -> None:
        self.a.copy_(MEASURES[self.measure](self.state_dim)[0])
        self.log_step.fill_(math.log(self.step_size))

    def _system(self) -> tuple[Tensor, ...]:
        """A, B, C and Δ."""
        dtype = torch.promote_types(self.dtype, torch.float32)
        return self.a, self.b.weight, self.c.weight, self.log_step[0].to(dtype).exp()


@register
class SSMConfig(MixerConfig):
    """The linear state-space model. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["ssm"] = "ssm"
    state_dim: int = Field(16, ge=1, description="states of the one system")
    measure: Measure = Field("legs", description="HiPPO measure whose matrix initializes A")
    method: Method = Field("bilinear", description="discretization; euler is stable only for short steps")
    step: float = Field(0.01, gt=0, description="initial step size Δ")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(100, "the gradient of its one Δ sums over all states what may cancel")
    examples: ClassVar = (
        {"state_dim": 3},
        {"state_dim": 2, "measure": "legt", "method": "zoh"},
        {"state_dim": 2, "measure": "lagt", "method": "euler"},
    )

    @override
    def make(self, layer: Layer) -> SSM:
        return SSM(layer.dim, self.state_dim, self.measure, self.method, self.step)
