"""The modal Extractor: an Extractor whose taps are sums of decaying waves, with a state of constant size for all lags.

    z = x W_in                                                   with `in_proj`
    h_t = λ h_{t-1} + z_t,   e_t = d z_t + 2 Re Σ_n c_n h_{t,n}      N = `order` of λ, c and h in each channel
    y = ((x W_adj) ∘ e) W_out                                    with `adjust`; with `out_proj`

which is the sum over lags e_t = Σ_{k≥0} ŵ_k z_{t-k} under the taps ŵ_k = d [k=0] + 2 Re Σ_n c_n λ_n^k. The poles are
λ = exp(-e^a + iω), with a = `log_rate` and ω = `frequency`, so that all waves decay. HE's and WE's taps belong to
channels, ME's are shared by all.

Before training ω = 0, so that the waves are plain decays; they reach 1/e in L^{1/N}, L^{2/N}, … L tokens, L the
context, and c is drawn so that e has the variance of z, to which all waves contribute alike.

Source: the Extractor paper's Eq. 24-29 around the modal form of Massaroli et al., Laughing Hyena Distillery,
arXiv:2310.18780, to which `seqloom study poles` brings a trained Extractor. There the waves begin at lag 1, which only
scales c, and d is all of lag 0. An Extractor's taps end at its context; these decay.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias, final

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
from seqloom.ops.state_space.diagonal_states import filter_sequence, kernel, respond
from seqloom.ops.state_space.diagonal_states.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")
Taps: TypeAlias = Literal["channel", "shared"]
LONG = 128
"""the longest initial memory, in tokens, if there is no context"""


@final
class ModalExtractor(PackedMixer):
    """A sum over all lags by poles. State: h (B, D, N, 2), real and imaginary parts."""

    traits = TRAITS

    def __init__(self, dim: int, context: int, config: "ModalExtractorConfig") -> None:
        super().__init__()
        self.dim, self.context, self.order = dim, context, config.order
        self.tied = config.taps == "shared"
        rows = 1 if self.tied else dim
        self.log_rate, self.frequency = (nn.Parameter(torch.empty(rows, self.order)) for _ in range(2))
        self.c, self.d = nn.Parameter(torch.empty(rows, self.order, 2)), nn.Parameter(torch.empty(rows))
        self.w_in, self.w_adj, self.w_out = (
            Linear(dim, dim, bias=False) if enabled else None
            for enabled in (config.in_proj, config.adjust, config.out_proj)
        )
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        waves = [self.log_rate, self.frequency]  # without weight decay: 0 is not neutral for them
        others = [parameter for parameter in self.parameters() if not any(parameter is wave for wave in waves)]
        return [{"params": others}, {"params": waves, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"h": StateEntry((self.dim, self.order, 2), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        z = x if self.w_in is None else self.w_in(x)
        entries: Entries = {}
        if state is None:
            summed = filter_sequence(z.to(self._compute_dtype), self._system)
        else:
            h = torch.view_as_complex(state["h"])
            summed, h = respond(z.to(self._compute_dtype), self._system, h, lengths=lengths)
            entries = {"h": torch.view_as_real(h)}
        e = (summed + self.d.to(summed.dtype) * z).to(x.dtype)
        y = e if self.w_adj is None else self.w_adj(x) * e
        out = y if self.w_out is None else self.w_out(y)
        return out, entries

    @override
    def plots(self, x: Stream) -> list[View]:
        taps = self.taps(x.shape[1])
        taps_axes: tuple[str, ...] = ("lag", "channel")
        wave_axes: tuple[str, ...] = ("channel", "wave")
        memory, turns = (-self.log_rate).exp().detach(), (self.frequency / (2 * math.pi)).detach()
        if self.tied:
            taps, taps_axes, wave_axes = taps[:, 0], ("lag",), ("wave",)
            memory, turns = memory[0], turns[0]
        return [
            View("taps", "the weight of a channel's own input at each lag", taps_axes, taps),
            View("memory", "tokens in which a wave decays to 1/e", wave_axes, memory),
            View("frequency", "turns of a wave in a token", wave_axes, turns),
        ]

    def taps(self, count: int) -> Tensor:
        """ŵ of the first `count` lags, of each channel or of all: (count, D) or (count, 1), without gradients."""
        with torch.no_grad():
            rates, weights = self._waves()
            w = kernel(rates, weights, count)
            w[:1] += self.d.to(w.dtype)
        return w

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        n, waves = span.rows * self.dim, span.rows * self.log_rate.numel()
        rate = Cost(exp=waves, other=waves, path=("exponentiation",))  # -e^a, priced per token, as in a step
        direct = Cost(mul=n, add=n, path=("addition",))  # d z
        adjusted = Cost(mul=n, path=("multiplication",)) if self.w_adj is not None else None
        system = price(span.rows, self.dim, self.order, self.tied)
        return self.w_in, rate, system, direct, adjusted, self.w_out

    @property
    def _compute_dtype(self) -> torch.dtype:
        return torch.promote_types(self.dtype, torch.float32)

    @torch.no_grad()
    def _initialize(self) -> None:
        n = torch.arange(1, self.order + 1, dtype=torch.float64)
        log_rate = -math.log(self.context) * n / self.order
        self.log_rate.copy_(log_rate)
        self.frequency.zero_()
        self.d.zero_()
        energy = 1 / -torch.expm1(-2 * log_rate.exp())  # Σ_k λ^{2k}
        self.c.normal_()
        self.c.mul_((1 / (2 * (self.order * energy).sqrt()))[:, None])

    def _waves(self) -> tuple[Tensor, Tensor]:
        """ln λ and c of each channel, or of all: (D, N) or (1, N)."""
        log_rate, frequency, c = (tensor.to(self._compute_dtype) for tensor in (self.log_rate, self.frequency, self.c))
        return torch.complex(-log_rate.exp(), frequency), torch.view_as_complex(c)

    def _system(self) -> tuple[Tensor, Tensor]:
        """ln λ (D, N), or (N,) if all channels share it, and c (D, N)."""
        rates, weights = self._waves()
        return (rates[0], weights.expand(self.dim, -1)) if self.tied else (rates, weights)


@register
class ModalExtractorConfig(MixerConfig):
    """An Extractor with decaying waves as taps: HE, WE or ME with a state of constant size."""

    kind: Literal["modal_extractor"] = "modal_extractor"
    order: int = Field(16, ge=1, le=2**16, description="decaying waves per channel, each a complex number of the state")
    taps: Taps = Field("channel", description="whether each channel has its own taps, or all share them (as in ME)")
    in_proj: bool = Field(True, description="whether there is an input projection W_in")
    adjust: bool = Field(True, description="whether the extraction is multiplied by W_adj of the current token")
    out_proj: bool = Field(True, description="whether the output projection W_out follows")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        250, "a mode's gradient by its frequency weights each lag by the lag, and its phase is rounded"
    )
    examples: ClassVar = (
        {"order": 2},
        {"order": 3, "in_proj": False},
        {"order": 2, "taps": "shared", "in_proj": False, "adjust": False, "out_proj": False},
    )

    @override
    def make(self, layer: Layer) -> ModalExtractor:
        if layer.context is not None and layer.context < 1:
            raise ValueError(f"context must be at least 1, not {layer.context}")
        return ModalExtractor(layer.dim, LONG if layer.context is None else layer.context, self)
