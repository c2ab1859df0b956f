"""The linear state-space layer: a copy of one system for each channel, at a time scale of its own.

    x'(t) = A x(t) + B u(t),   y(t) = C x(t) + D u(t)             N = `state_dim` and M = `outputs` for each channel
    x_t = Ā x_{t-1} + B̄ u_t,   y_t = C x_t + D u_t                Ā = (I - Δ/2 A)^{-1} (I + Δ/2 A), Δ = e^`log_step`
    out = GELU(y) W_out + bias                                    B̄ = (I - Δ/2 A)^{-1} Δ B;  x_{-1} = 0

A (N, N) and B (N,) are shared and initialized to HiPPO's of `measure`; C (D, M, N) and D (D, M) normal, Δ (D,) between
1e-3 and 1e-1, evenly in its logarithm. Without `learn` A, B and Δ keep their initial values: LSSL-f. W_out mixes all
D·M outputs, which are ordered by channel.

Source: Gu et al., Combining Recurrent, Convolutional, and Continuous-time Models with Linear State-space Layers,
arXiv:2110.13985, sections 3 and 4.3 and appendix B. The paper learns A within quasiseparable matrices, for which it has
no practical algorithm; here A is dense, and its kernel is computed by squaring. Nothing keeps a learned A stable.
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
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.state_space import outputs, single
from seqloom.ops.state_space.hippo import MEASURES, Measure
from seqloom.ops.state_space.reference import single_price

TRAITS = Traits(causal="always", streams=True, state="constant")
STEPS = (1e-3, 1e-1)
"""the bounds of the initial Δ"""


@final
class LSSL(PackedMixer):
    """State-space models of N states and M outputs, one per channel. State: x (B, D, N), as `h`."""

    traits = TRAITS
    a: Tensor
    b: Tensor
    log_step: Tensor

    def __init__(self, dim: int, state_dim: int, outputs: int, measure: Measure, learn: bool) -> None:
        super().__init__()
        self.dim, self.state_dim, self.outputs, self.measure, self.learn = dim, state_dim, outputs, measure, learn
        for name, shape in (("a", (state_dim, state_dim)), ("b", (state_dim,)), ("log_step", (dim,))):
            if learn:
                self.register_parameter(name, nn.Parameter(torch.empty(shape)))
            else:
                self.register_buffer(name, torch.empty(shape))
        self.c = nn.Parameter(torch.empty(dim, outputs, state_dim))
        self.d = nn.Parameter(torch.empty(dim, outputs))
        self.w_out = Linear(dim * outputs, dim)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """A and B return to their initial values, Δ, C and D are drawn again, whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """A, B and Δ are not decayed, since 0 is not a neutral value of them."""
        decayed = [self.c, self.d, *self.w_out.parameters()]
        if not self.learn:
            return [{"params": decayed}]
        return [{"params": decayed}, {"params": [self.a, self.b, self.log_step], "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry((self.dim, self.state_dim), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        entries: Entries = {}
        if state is None:
            y = outputs("single", x, self._system, "bilinear")  # as one long convolution, without states
        else:
            y, h = single(x, self._system, "bilinear", state["h"], lengths=lengths)
            entries["h"] = h.contiguous()  # as at the start, so that a compiled step is traced once
        return self.w_out(gelu(y + self.d * x[..., None]).flatten(-2)), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        """Each output's kernel, and the time scales."""
        impulse = torch.zeros_like(x[:1])
        impulse[:, :1] = 1.0
        kernels = outputs("single", impulse, self._system, "bilinear")[0].flatten(1)
        scale = torch.exp(-self.log_step.double())
        return [
            View("kernel", "the weight of a channel's own input at each lag, D aside", ("lag", "output"), kernels),
            View("time scale", "tokens in a unit of the system's time", ("channel",), scale),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, D, N, M = span.rows, self.dim, self.state_dim, self.outputs
        step = Cost(exp=rows * D, path=("exponentiation",))  # Δ, Ā and B̄, priced per token as in a step
        skip = Cost(mul=rows * D * M, add=rows * D * M, path=("addition",))
        return step, single_price(rows, D, N, M, "bilinear"), skip, price_gelu(rows * D * M), self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        low, high = (math.log(step) for step in STEPS)
        A, B = MEASURES[self.measure](self.state_dim)
        self.a.copy_(A)
        self.b.copy_(B)
        self.log_step.uniform_(low, high)
        self.c.normal_()
        self.d.normal_()

    def _system(self) -> tuple[Tensor, ...]:
        """A, B, C and Δ."""
        dtype = torch.promote_types(self.dtype, torch.float32)
        return self.a, self.b, self.c, self.log_step.to(dtype).exp()


@register
class LSSLConfig(MixerConfig):
    """The linear state-space layer. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["lssl"] = "lssl"
    state_dim: int = Field(32, ge=1, description="states of each channel")
    outputs: int = Field(1, ge=1, description="outputs per channel, before channels are mixed")
    measure: Measure = Field("legs", description="HiPPO measure whose matrices initialize A and B")
    learn: bool = Field(True, description="whether A, B and the steps are learned; if not, this is the paper's LSSL-f")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"state_dim": 2, "outputs": 2},
        {"state_dim": 3, "measure": "legt", "learn": False},
    )

    @override
    def make(self, layer: Layer) -> LSSL:
        return LSSL(layer.dim, self.state_dim, self.outputs, self.measure, self.learn)
