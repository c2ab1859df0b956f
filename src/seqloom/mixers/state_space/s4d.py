"""S4D: a diagonal state-space model for each channel.

    A_n = -e^{a_n} + i ω_n,  B_n = 1                     a = `log_rate`, ω = `frequency`: N/2 of each for N states
    h_t = Ā h_{t-1} + B̄ x_t,  y_t = 2 Re Σ_n C_n h_{t,n} + D x_t,  out = GELU(y) W_out + b     Δ = e^`log_step`
    zoh       Ā = e^{ΔA},                    B̄ = (e^{ΔA} - 1) / A
    bilinear  Ā = (1 + ΔA/2) / (1 - ΔA/2),   B̄ = Δ / (1 - ΔA/2)

Before training a_n = ln ½ in every channel, and for n = 0 … N/2 - 1
    lin   ω_n = π n        inv   ω_n = N/π (N/(2n+1) - 1)        legs   the eigenvalues of HiPPO-LegS less its rank 1

Each channel has a Δ, initialized log-uniformly between 1e-3 and 1e-1; C and D are initialized normal.

Source: Gu et al., On the Parameterization and Initialization of Diagonal State Space Models, arXiv:2206.11893, Eq. 4, 8
and 9 and Listing 1. B is not learned: it would only scale C. The authors' code has a W_out of twice the width, half of
which is a gate. It learns Δ and A without weight decay, as here, and at their own rate of 1e-3. No seed has S4D.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import gelu
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.cost import gelu as price_gelu
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.state_space.diagonal_states import filter_sequence, kernel, respond
from seqloom.ops.state_space.diagonal_states.reference import GROWTH, price
from seqloom.ops.state_space.discretise import diagonal_bilinear, growth
from seqloom.ops.state_space.hippo import normal

TRAITS = Traits(causal="always", streams=True, state="constant")
Init: TypeAlias = Literal["lin", "inv", "legs"]
Method: TypeAlias = Literal["zoh", "bilinear"]
STEPS = (1e-3, 1e-1)
"""the bounds of the initial Δ"""


@final
class S4D(PackedMixer):
    """State-space models of `state_dim` states, one per channel. State: h (B, D, N/2, 2), real and imaginary parts."""

    traits = TRAITS

    def __init__(self, dim: int, state_dim: int, init: Init, method: Method) -> None:
        super().__init__()
        self.dim, self.states, self.init, self.method = dim, state_dim // 2, init, method
        self.log_step, self.d = (nn.Parameter(torch.empty(dim)) for _ in range(2))
        self.log_rate, self.frequency = (nn.Parameter(torch.empty(dim, self.states)) for _ in range(2))
        self.c = nn.Parameter(torch.empty(dim, self.states, 2))
        self.w_out = Linear(dim, dim)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """A returns to its initial values, Δ, C and D are drawn again, whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """A and Δ are not decayed, since 0 is not a neutral value of them."""
        dynamics = [self.log_step, self.log_rate, self.frequency]
        return [{"params": [self.c, self.d, *self.w_out.parameters()]}, {"params": dynamics, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry((self.dim, self.states, 2), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        u = x.to(self._compute_dtype)
        entries: Entries = {}
        if state is None:
            y = filter_sequence(u, self._system)  # as one long convolution, without states
        else:
            y, h = respond(u, self._system, torch.view_as_complex(state["h"]), lengths=lengths)
            entries["h"] = torch.view_as_real(h)
        y = gelu(y + self.d.to(y.dtype) * x)
        return self.w_out(y.to(x.dtype)), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        """Each channel's kernel, and how slowly its states decay and how fast they turn."""
        rates, weights = self._system()
        return [
            View(
                "kernel",
                "the weight of a channel's own input at each lag, D aside",
                ("lag", "channel"),
                kernel(rates, weights, x.shape[1]),
            ),
            View("memory", "tokens in which a state decays to 1/e", ("channel", "state"), -1 / rates.real),
            View("frequency", "turns of a state in a token, before sampling", ("channel", "state"), self._turns()),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, D, N = span.rows, self.dim, self.states
        if self.method == "zoh":  # ΔA, its growth, times Δ
            discrete = rows * D * N * (GROWTH + Cost(mul=2 + 2))
        else:  # Δ/2 A; the inverse of the denominator, two products; the logarithm
            discrete = rows * D * N * Cost(mul=10 + 2, add=5 + 1, div=2, other=3) + Cost(div=rows * D)
        parameters = Cost(  # Δ; -e^a; C B̄; priced per token, as in a step
            mul=4 * rows * D * N,
            add=2 * rows * D * N,
            exp=rows * D * (1 + N),
            other=rows * D * N,
            path=("exponentiation", "multiplication"),
        )
        skip = Cost(mul=rows * D, add=rows * D, path=("addition",))
        return parameters, discrete, price(rows, D, N, shared=False), skip, price_gelu(rows * D), self.w_out

    @property
    def _compute_dtype(self) -> torch.dtype:
        return torch.promote_types(self.dtype, torch.float32)

    @torch.no_grad()
    def _initialize(self) -> None:
        low, high = (math.log(step) for step in STEPS)
        self.log_step.uniform_(low, high)
        self.log_rate.fill_(math.log(0.5))
        self.frequency.copy_(frequencies(self.init, 2 * self.states).to(self.frequency))
        self.c.normal_(std=0.5**0.5)
        self.d.normal_()

    def _turns(self) -> Tensor:
        """The turns of each state per token, (D, N/2)."""
        step = self.log_step.exp()[:, None]
        return (step * self.frequency / (2 * math.pi)).detach()

    def _system(self) -> tuple[Tensor, Tensor]:
        """ln Ā and C B̄ (D, N/2)."""
        log_step, log_rate, frequency, c = (
            tensor.to(self._compute_dtype) for tensor in (self.log_step, self.log_rate, self.frequency, self.c)
        )
        step, A = log_step.exp()[:, None], torch.complex(-log_rate.exp(), frequency)
        C = torch.view_as_complex(c)
        if self.method == "zoh":
            z = A * step
            return z, C * (step * growth(z))
        decay, factor = diagonal_bilinear(A, step)
        return torch.log(decay), C * factor


def frequencies(init: Init, state_dim: int) -> Tensor:
    """The initial ω (N/2,) of each channel, in float64."""
    N, n = state_dim, torch.arange(state_dim // 2, dtype=torch.float64)
    if init == "lin":
        return math.pi * n
    if init == "inv":
        return N / math.pi * (N / (2 * n + 1) - 1)
    return normal(N)[0].imag


@register
class S4DConfig(MixerConfig):
    """S4 with diagonal states. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["s4d"] = "s4d"
    state_dim: int = Field(
        64, ge=2, multiple_of=2, description="states per channel; half are stored, the others are their conjugates"
    )
    init: Init = Field("lin", description="initial frequencies: evenly spaced, inverse, or those of HiPPO-LegS")
    method: Method = Field("zoh", description="discretization: zero-order hold, or bilinear")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        1300, "fast modes turn thousands of times before they decay, and Δ moves each turn: phases are rounded"
    )
    examples: ClassVar = (
        {"state_dim": 4},
        {"state_dim": 6, "init": "inv", "method": "bilinear"},
        {"state_dim": 2, "init": "legs"},
    )

    @override
    def make(self, layer: Layer) -> S4D:
        return S4D(layer.dim, self.state_dim, self.init, self.method)
