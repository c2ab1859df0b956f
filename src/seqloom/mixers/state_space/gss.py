"""GSS: a diagonal state-space model over few channels, and a gate over many.

    u = GELU(x W_u),   v = GELU(x W_v)      u (T, H), H = `channels`, D/4; v (T, F), F = `width`, 4D; no biases
    û = norm(u),   y_t = Σ_l K_l û_{t-l} + d û_t,   out = (y W_y ∘ v) W_out
    K_{l,c} = Re Σ_n C_{c,n} (e^{λ_n} - 1) / λ_n e^{l λ_n},     λ = -e^{a} + i e^{b}, N of them for all channels

norm subtracts the mean over channels and divides by √(variance + 1e-5), with gain and bias. a = `log_rate`, b =
`log_frequency`; a, b, both parts of C, and d are initialized as N(0, 1). There is no Δ: it would only scale λ.

Source: Mehta et al., Long Range Language Modeling via Gated State Spaces, arXiv:2206.13947, section 3 and its listings,
where D = 1024, H = 256, F = 4096, N = 512. The norm before the layer and the residual around it are the block's. The
states are not halves of conjugate pairs: Re, not 2 Re. Seed 000 names it with a reduced dimension of D/4 and prints no
equation.
"""

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
from seqloom.ops.state_space.diagonal_states import filter_sequence, kernel, respond
from seqloom.ops.state_space.diagonal_states.reference import GROWTH, price
from seqloom.ops.state_space.discretise import growth

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class GSS(PackedMixer):
    """A gated state-space layer. State: h (B, H, N, 2), real and imaginary parts."""

    traits = TRAITS

    def __init__(self, dim: int, channels: int, width: int, state_dim: int) -> None:
        super().__init__()
        self.dim, self.channels, self.width, self.state_dim = dim, channels, width, state_dim
        self.w_u, self.w_v = (Linear(dim, columns, bias=False) for columns in (channels, width))
        self.w_y, self.w_out = Linear(channels, width, bias=False), Linear(width, dim, bias=False)
        self.norm = nn.LayerNorm(channels)
        self.log_rate, self.log_frequency = (nn.Parameter(torch.empty(state_dim)) for _ in range(2))
        self.c, self.d = nn.Parameter(torch.empty(channels, state_dim, 2)), nn.Parameter(torch.empty(channels))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """λ, C and d are drawn again, N(0, 1), whatever `std`."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """λ is not decayed, since 0 is not a neutral value of its logarithms."""
        undecayed = [self.log_rate, self.log_frequency]
        others = [parameter for parameter in self.parameters() if all(parameter is not other for other in undecayed)]
        return [{"params": others}, {"params": undecayed, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry((self.channels, self.state_dim, 2), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        u = self.norm(gelu(self.w_u(x)))
        u = u.to(torch.promote_types(u.dtype, torch.float32))
        v = gelu(self.w_v(x))
        entries: Entries = {}
        if state is None:
            y = filter_sequence(u, self._system)  # as one long convolution, without states
        else:
            y, h = respond(u, self._system, torch.view_as_complex(state["h"]), lengths=lengths)
            entries["h"] = torch.view_as_real(h)
        y = y + self.d * u
        return self.w_out(self.w_y(y.to(x.dtype)) * v), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        """Each channel's kernel, the memory of the states, and the gate."""
        rates, weights = self._system()
        return [
            View(
                "kernel",
                "the weight of a channel's own input at each lag, d aside",
                ("lag", "channel"),
                kernel(rates, weights, x.shape[1]),
            ),
            View("memory", "tokens in which a state decays to 1/e", ("state",), -1 / rates.real),
            View(
                "gate",
                "what each channel of the wide branch is multiplied by",
                ("position", "width"),
                gelu(self.w_v(x[0])),
            ),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, H, F, N = span.rows, self.channels, self.width, self.state_dim
        rates = Cost(exp=2 * rows * N, other=rows * N)  # -e^a, e^b; priced per token, as in a step
        factors = rows * N * (GROWTH + Cost(mul=2))  # (e^λ - 1) / λ, halved
        weights = factors + rows * H * N * Cost(mul=4, add=2)  # times C
        skip = Cost(mul=rows * H, add=rows * H, path=("addition",))
        system = rates + weights + price(rows, H, N, shared=True) + skip
        gated = price_gelu(rows * F).parallel() + Cost(mul=rows * F, path=("multiplication",))
        return self.w_u, price_gelu(rows * H), self.norm, system, self.w_y, gated, self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        for parameter in (self.log_rate, self.log_frequency, self.c, self.d):
            parameter.normal_()

    def _system(self) -> tuple[Tensor, Tensor]:
        """λ (N,) and C (e^λ - 1) / λ (H, N), halved because the op takes 2 Re of their sum and GSS takes Re."""
        dtype = torch.promote_types(self.dtype, torch.float32)
        log_rate, log_frequency, c = (tensor.to(dtype) for tensor in (self.log_rate, self.log_frequency, self.c))
        rates = torch.complex(-log_rate.exp(), log_frequency.exp())
        return rates, torch.view_as_complex(c) * (0.5 * growth(rates))


@register
class GSSConfig(MixerConfig):
    """GSS, the gated state space. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["gss"] = "gss"
    state_dim: int = Field(512, ge=1, description="complex states of each channel, with the same decay in all")
    channels: int = Field(0, ge=0, description="channels of the state-space model; 0 for a quarter of the model's")
    width: int = Field(0, ge=0, description="width of the gate; 0 for four times the model's channels")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(1600, "modes that turn often, as in S4D, and gates and norms whose inputs they are")
    examples: ClassVar = ({"state_dim": 3, "channels": 4}, {"state_dim": 2, "channels": 6, "width": 5})

    @override
    def make(self, layer: Layer) -> GSS:
        return GSS(layer.dim, self.channels or max(1, layer.dim // 4), self.width or 4 * layer.dim, self.state_dim)
