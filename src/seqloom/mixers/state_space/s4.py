"""S4: a state-space model for each channel whose matrix is diagonal less a matrix of rank 1.

    x'(t) = A x(t) + B u(t),   y(t) = C x(t) + D u(t),   A = Λ - P P*            N = `state_dim` for each channel
    (2/Δ - A) x_t = (2/Δ + A) x_{t-1} + 2 B u_t,   y_t = C x_t + D u_t           bilinear; x_{-1} = 0, Δ = e^`log_step`
    out = GELU(y) W_out + bias

Λ, P, B and C come in pairs of conjugates, of which one is stored: `eigenvalues`, `p`, `b` (N/2, 2) and `c` (D, N/2, 2)
hold real and imaginary parts, and C x is 2 Re Σ c_n x_n. Λ, P and B are shared by the channels. A real part of Λ above
-1e-4 counts as -1e-4; as P P* is subtracted, no state can grow.

Λ, P and B are initialized to those of HiPPO-LegS (`seqloom.ops.state_space.hippo`), C and D normal, Δ between 1e-3 and
1e-1, evenly in its logarithm. Λ, P, B and Δ are not decayed and learn at their own rate `lr`.

A sequence is a lag sum under the kernel C Ā^l B̄ (`seqloom.ops.state_space.generating`); a piece adds the response to
the state, by powers of Ā; a token is the recurrence, O(N) by Woodbury's identity.

Source: Gu et al., Efficiently Modeling Long Sequences with Structured State Spaces, arXiv:2111.00396, Algorithm 1; P P*
for the paper's P Q* as in Goel et al., arXiv:2202.09729; sharing, rates and initialization from the authors' code,
which learns C (I - Ā^L) for a length L set beforehand, as the paper does, and in later versions has a W_out of twice
the width, half of which is a gate. The bound of Λ is from The Annotated S4. Seed 004 (Eq. 32) has HiPPO's A alone.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

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
from seqloom.ops.state_space import low_rank, outputs
from seqloom.ops.state_space.hippo import normal
from seqloom.ops.state_space.reference import low_rank_price

TRAITS = Traits(causal="always", streams=True, state="constant")
STEPS = (1e-3, 1e-1)
"""the bounds of the initial Δ"""
CEILING = -1e-4
"""the largest real part of Λ"""


@final
class S4(PackedMixer):
    """State-space models of `state_dim` states, one per channel. State: x (B, D, N/2, 2) as `h`, real and imaginary."""

    traits = TRAITS

    def __init__(self, dim: int, state_dim: int, lr: float) -> None:
        super().__init__()
        self.dim, self.pairs, self.lr = dim, state_dim // 2, lr
        self.log_step, self.d = (nn.Parameter(torch.empty(dim)) for _ in range(2))
        self.eigenvalues, self.p, self.b = (nn.Parameter(torch.empty(self.pairs, 2)) for _ in range(3))
        self.c = nn.Parameter(torch.empty(dim, self.pairs, 2))
        self.w_out = Linear(dim, dim)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """Λ, P and B return to their initial values, Δ, C and D are drawn again, whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """Λ, P, B and Δ are not decayed, and have their own learning rate."""
        dynamics = [self.log_step, self.eigenvalues, self.p, self.b]
        decayed = [self.c, self.d, *self.w_out.parameters()]
        return [{"params": decayed}, {"params": dynamics, "weight_decay": 0.0, "lr": self.lr}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry((self.dim, self.pairs, 2), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        entries: Entries = {}
        if state is None:
            y = outputs("low_rank", x, self._system)  # as one long convolution, without states
        else:
            y, h = low_rank(x, self._system, torch.view_as_complex(state["h"]), lengths=lengths)
            entries["h"] = torch.view_as_real(h)
        return self.w_out(gelu(y + self.d * x)), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        """Each channel's kernel, its time scale, and the frequencies of Λ."""
        impulse = torch.zeros_like(x[:1])
        impulse[:, :1] = 1.0
        kernels = outputs("low_rank", impulse, self._system)[0]
        step = self.log_step.double().exp()
        turns = step[:, None] * self.eigenvalues[:, 1].double() / (2 * math.pi)
        return [
            View("kernel", "the weight of a channel's own input at each lag, D aside", ("lag", "channel"), kernels),
            View("time scale", "tokens in a unit of the system's time", ("channel",), 1 / step),
            View("frequency", "turns of an eigenvalue of Λ in a token", ("channel", "pair"), turns),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n, H = span.rows * self.dim, self.pairs
        parameters = Cost(exp=n, other=span.rows * H, path=("exponentiation",))  # priced per token, as in a step
        skip = Cost(mul=n, add=n, path=("addition",))
        return parameters, low_rank_price(span.rows, self.dim, H), skip, price_gelu(n), self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        low, high = (math.log(step) for step in STEPS)
        eigenvalues, _, P, B = normal(2 * self.pairs)
        for parameter, values in ((self.eigenvalues, eigenvalues), (self.p, P), (self.b, B)):
            parameter.copy_(torch.view_as_real(values))
        self.log_step.uniform_(low, high)
        self.c.normal_(std=0.5**0.5)
        self.d.normal_()

    def _system(self) -> tuple[Tensor, ...]:
        """Λ, P, B and C, complex, and Δ."""
        dtype = torch.promote_types(self.dtype, torch.float32)
        values, p, b, c = (tensor.to(dtype) for tensor in (self.eigenvalues, self.p, self.b, self.c))
        eigenvalues = torch.complex(values[:, 0].clamp(max=CEILING), values[:, 1])
        return eigenvalues, *(torch.view_as_complex(tensor) for tensor in (p, b, c)), self.log_step.to(dtype).exp()


@register
class S4Config(MixerConfig):
    """The structured state space S4. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["s4"] = "s4"
    state_dim: int = Field(
        64, ge=2, multiple_of=2, description="states per channel; half are stored, the others are their conjugates"
    )
    lr: float = Field(1e-3, gt=0, description="learning rate of Λ, P, B and the steps")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        12000, "fast modes turn thousands of times before they decay, and Δ moves each turn: phases are rounded"
    )
    examples: ClassVar = ({"state_dim": 4},)

    @override
    def make(self, layer: Layer) -> S4:
        return S4(layer.dim, self.state_dim, self.lr)
