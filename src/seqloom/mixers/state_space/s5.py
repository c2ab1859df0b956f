"""S5: one diagonal linear state space of many inputs and many outputs, and a gate on its output.

    x_t = Λ̄ ∘ x_{t-1} + B̄ u_t,   y_t = 2 Re(C x_t) + D ∘ u_t       P/2 complex states for P in conjugate pairs; x_0 = 0
    Λ̄ = e^{ΛΔ},   B̄ = Λ^-1 (Λ̄ - 1) ∘ B                              zero-order hold; Δ = `step_scale` e^`log_step`, one
                                                                    per state
    out = z ∘ σ(z W_gate),   z = GELU(y)                            y Φ(y), Φ by the error function

Bidirectional, with x' the states of the same system that reads the row from its end, and C over both states:

    y_t = 2 Re(C [x_t, x'_t]) + D ∘ u_t

Λ is initialized to the eigenvalues of J blocks of HiPPO-N (the normal part of HiPPO-LegS) of P/J states each, B and C
as real matrices N(0, 1/P) in the basis of their eigenvectors, D as N(0, 1), e^`log_step` log-uniform from `dt_min` to
`dt_max`.

Source: Smith et al., S5, arXiv:2208.04933, section 3, appendices B and G. Real parts of Λ are at most -10^-4, which is
`clip_eigs` of the authors' code. B is drawn with the variance of that code, as the paper gives none; there C is
initialized complex, GELU is an approximation by tanh, and W_gate has a bias. Steps that differ between tokens are not
implemented. B̄ u is computed as Λ^-1 (Λ̄ - 1) ∘ (B u), which is the same.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal, final

import torch
from jaxtyping import Complex, Float
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import gelu
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.cost import gelu as price_gelu
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.scan.hold import continuous, zero_order_hold
from seqloom.ops.scan.reference import price
from seqloom.ops.state_space.hippo import normal

TRAITS = Traits(causal="always", streams=True, state="constant")


class System(Mixer, ABC):
    """What both forms share: a state of `state_dim` P over `dim` channels, read in one direction or in both."""

    directions: ClassVar[int]
    """1, or 2 if C is over the states of both directions"""

    def __init__(self, dim: int, config: "S5Config") -> None:
        super().__init__()
        self.dim, self.config, self.states = dim, config, config.state_dim // 2
        N, inputs_of_c = self.states, self.directions * self.states
        self.log_step, self.eigenvalues = nn.Parameter(torch.empty(N)), nn.Parameter(torch.empty(N, 2))
        self.b, self.c = nn.Parameter(torch.empty(N, dim, 2)), nn.Parameter(torch.empty(dim, inputs_of_c, 2))
        self.d, self.w_gate = nn.Parameter(torch.empty(dim)), Linear(dim, dim, bias=False)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """Initializes the state space as above, whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """As in the authors' code Λ, Δ and B are not decayed, C and D are.

        There they also have their own learning rate, which depends on the task; here they have the model's.
        """
        others = [self.c, self.d, self.w_gate.weight]
        return [{"params": others}, {"params": [self.log_step, self.eigenvalues, self.b], "weight_decay": 0.0}]

    @override
    def plots(self, x: Stream) -> list[View]:
        """How slowly each state decays, how fast it turns, and the gate of each channel."""
        rates, step = continuous(self.log_step, self.eigenvalues, self.config.step_scale)
        lag = torch.arange(x.shape[1], device=x.device)[:, None]
        z = self._compute_output(x[:1])[0]
        return [
            View("memory", "tokens in which each state decays to 1/e", ("state",), -1 / (rates.real * step)),
            View("frequency", "turns of each state in a token", ("state",), rates.imag * step / (2 * math.pi)),
            View(
                "decay", "what is left of each state after each lag", ("lag", "state"), (lag * rates.real * step).exp()
            ),
            View(
                "gate",
                "how far each channel is open at each token, from 0 to 1",
                ("position", "channel"),
                torch.sigmoid(self.w_gate(z)),
            ),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, N, D = span.rows, self.states, self.dim
        discrete = Cost(  # priced per token, as in a step
            mul=(16 + (self.config.step_scale != 1)) * rows * N,
            add=5 * rows * N,
            div=3 * rows * N,
            exp=4 * rows * N,
            other=9 * rows * N,
            path=("exponentiation", "multiplication", "exponentiation", "addition", "division"),
        )
        drive = Cost(  # B u and its gain
            mul=rows * N * (2 * D + 4 * self.directions),
            add=rows * N * (2 * (D - 1) + 2 * self.directions),
            path=("multiplication", "cumulation", "multiplication", "addition"),
        )
        inputs_of_c = self.directions * N
        outputs = Cost(  # 2 Re(C x) + D ∘ u
            mul=rows * D * (2 * inputs_of_c + 2),
            add=rows * D * (2 * inputs_of_c - 1 + 1),
            path=("multiplication", "cumulation", "multiplication", "addition"),
        )
        gated = sigmoid(rows * D) + Cost(mul=rows * D, path=("multiplication",))
        scan = price(rows * N, is_complex=True) + (self.directions - 1) * price(rows * N, is_complex=True).parallel()
        return discrete, drive, scan, outputs, price_gelu(rows * D), self.w_gate, gated

    @abstractmethod
    def _states(self, drive: Complex[Tensor, "B T N"]) -> Complex[Tensor, "B T M"]:
        """The states (B, T, directions · P/2) that C reads, for a whole sequence."""

    def _drive(self, u: Stream) -> Complex[Tensor, "B T N"]:
        """B u (B, T, P/2), in float32 or better."""
        b = self.b.to(self._exact(u))
        real_imag = u.to(b.dtype) @ b.transpose(1, 2).flatten(0, 1).mT
        return torch.view_as_complex(real_imag.to(b.dtype).unflatten(-1, (-1, 2)))

    def _scan_states(
        self,
        drive: Complex[Tensor, "B T N"],
        x: Float[Tensor, "B N 2"] | None = None,
        lengths: Lengths | None = None,
    ) -> tuple[Complex[Tensor, "B T N"], Complex[Tensor, "B N"]]:
        """The state after every token, and the one after the last token of each row."""
        exact = drive.real.dtype
        old_state = None if x is None else torch.view_as_complex(x.to(exact))
        log_step, eigenvalues = self.log_step.to(exact), self.eigenvalues.to(exact)
        return zero_order_hold(drive, log_step, eigenvalues, old_state, scale=self.config.step_scale, lengths=lengths)

    def _compute_output(self, u: Stream, states: Complex[Tensor, "B T M"] | None = None) -> Stream:
        """z = GELU(2 Re(C x) + D ∘ u) from `states` x, by default those of u as a whole sequence."""
        states = self._states(self._drive(u)) if states is None else states
        exact = states.real.dtype
        y = torch.view_as_real(states.conj().resolve_conj()).flatten(2) @ self.c.to(exact).flatten(1).mT
        return gelu(2 * y.to(exact) + self.d.to(exact) * u.to(exact)).to(u.dtype)

    def _exact(self, u: Stream) -> torch.dtype:
        return torch.promote_types(torch.promote_types(u.dtype, self.dtype), torch.float32)

    @torch.no_grad()
    def _initialize(self) -> None:
        P, J, D = 2 * self.states, self.config.blocks, self.dim
        values, V, _, _ = normal(P // J)
        basis = torch.block_diag(*[V] * J)  # (P, P/2)
        self.eigenvalues.copy_(torch.view_as_real(values.repeat(J)))
        B = torch.randn(P, D, dtype=torch.float64) / math.sqrt(P)
        C = torch.randn(self.directions, D, P, dtype=torch.float64) / math.sqrt(P)
        self.b.copy_(torch.view_as_real(basis.mH @ B.to(basis)))
        self.c.copy_(torch.view_as_real(torch.cat([*(C.to(basis) @ basis)], -1)))
        nn.init.normal_(self.d)
        nn.init.uniform_(self.log_step, math.log(self.config.dt_min), math.log(self.config.dt_max))


@final
class S5(System, PackedMixer):
    """Causal S5. State: x, real and imaginary parts (B, P/2, 2)."""

    traits = TRAITS
    directions = 1

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"x": StateEntry((self.states, 2), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        states, new_state = self._scan_states(self._drive(x), state["x"] if state else None, lengths)
        z = self._compute_output(x, states)
        return z * torch.sigmoid(self.w_gate(z)), {"x": torch.view_as_real(new_state)}

    @override
    def _states(self, drive: Complex[Tensor, "B T N"]) -> Complex[Tensor, "B T N"]:
        return self._scan_states(drive)[0]


@final
class BidirectionalS5(System, BidirectionalMixer):
    """S5 over whole rows: C is over the states of both directions."""

    traits = Traits(causal="never", streams=False, state="none")
    directions = 2

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        z = self._compute_output(x)
        return z * torch.sigmoid(self.w_gate(z))

    @override
    def _states(self, drive: Complex[Tensor, "B T N"]) -> Complex[Tensor, "B T M"]:
        # Padding has u = 0, so the reversed scan, which begins with it, still has the state 0 at the last token.
        forward, backward = self._scan_states(torch.cat([drive, drive.flip(1)]))[0].chunk(2)
        return torch.cat([forward, backward.flip(1)], -1)


@register
class S5Config(MixerConfig):
    """S5, one system for all channels. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["s5"] = "s5"
    state_dim: int = Field(64, ge=2, description="number of states P; of each conjugate pair one is stored")
    blocks: int = Field(1, ge=1, description="blocks J of the initial Λ, each from HiPPO-N")
    dt_min: float = Field(1e-3, gt=0, description="smallest initial step size Δ")
    dt_max: float = Field(1e-1, gt=0, description="largest initial step size Δ")
    step_scale: float = Field(1.0, gt=0, description="factor of all step sizes, for data at another sampling rate")
    traits: ClassVar = replace(TRAITS, causal="either")
    rounding: ClassVar = Rounding(
        9000, "fast modes turn thousands of times before they decay, and Δ moves each turn: phases are rounded"
    )
    examples: ClassVar = ({"state_dim": 8, "blocks": 2}, {"state_dim": 6, "step_scale": 0.5})

    @model_validator(mode="after")
    def _in_blocks(self) -> "S5Config":
        if self.state_dim % (2 * self.blocks):
            raise ValueError(
                f"{self.state_dim} states are no {self.blocks} blocks of conjugate pairs: choose a state_dim divisible "
                f"by {2 * self.blocks}"
            )
        if self.dt_min > self.dt_max:
            raise ValueError(f"dt_min {self.dt_min} is above dt_max {self.dt_max}: choose dt_min ≤ dt_max")
        return self

    @override
    def make(self, layer: Layer) -> System:
        return S5(layer.dim, self) if layer.causal else BidirectionalS5(layer.dim, self)
