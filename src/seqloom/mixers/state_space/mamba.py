"""Mamba: a selective state space over more channels than the stream has, a short convolution before it, a gate after.

    (u, z) = x W_in                                                 E = `expand` D channels each; no biases
    u'_t = silu(b + Σ_{k<W} taps_k ∘ u_{t-k})                        W = `kernel`; u_t = 0 before the first token
    (r, B, C) = u' W_x,   Δ = softplus(r W_Δ + b_Δ)                  r of R channels, B and C of N = `state_dim`; with
                                                                    `norm_eps` each over its root mean square
    h_t = e^{Δ_t A} ∘ h_{t-1} + Δ_t u'_t B_t                         per channel; A = -e^`a_log`; h_0 = 0
    y_t = ((h_t · C_t + d ∘ u'_t) ∘ silu(z_t)) W_out

Before training A_n = -n, softplus(b_Δ) is log-uniform from `dt_min` to `dt_max` and at least 1e-4, W_Δ uniform in
±R^(-1/2), d = 1, taps and b uniform in ±W^(-1/2). The paper's models of these layers have no feed-forward networks, and
RMS norms.

Source: Gu & Dao, Mamba, arXiv:2312.00752, sections 3.4 and 3.6; W, d and the initialization are those of the authors'
code. B is discretized by Euler's rule as in that code, not by their Eq. 4. Their code divides the initial W_out by
√depth; here the model initializes the projections. `norm_eps` is of Falcon Mamba, arXiv:2410.05355, whose norms have no
gains.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from seqloom.core.cost import Cost, Span, rootnorm
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import convolve_after
from seqloom.mixers.base import PackedMixer
from seqloom.ops.fused.projection import project
from seqloom.ops.fused.rms_norm import rms_norm
from seqloom.ops.fused.short_convolution import convolve
from seqloom.ops.fused.short_convolution.reference import price as convolution_price
from seqloom.ops.scan.selective_scan import initial_weights, selective
from seqloom.ops.scan.selective_scan.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class Mamba(PackedMixer):
    """A Mamba block over `dim` channels. State: the last inputs of the convolution (B, W-1, E), and h (B, E, N)."""

    traits = TRAITS

    def __init__(self, dim: int, config: "MambaConfig") -> None:
        super().__init__()
        self.dim, self.config, self.inner = dim, config, config.expand * dim
        self.rank, N, E = config.dt_rank or -(-dim // 16), config.state_dim, self.inner
        self.in_proj, self.out_proj = Linear(dim, 2 * E, bias=False), Linear(E, dim, bias=False)
        self.conv_weight, self.conv_bias = nn.Parameter(torch.empty(config.kernel, E)), nn.Parameter(torch.empty(E))
        self.x_proj, self.dt_proj = Linear(E, self.rank + 2 * N, bias=False), Linear(self.rank, E)
        self.a_log, self.d = nn.Parameter(torch.empty(E, N)), nn.Parameter(torch.empty(E))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """A, d and b_Δ return to their initial values or are drawn again, as are W_Δ and the taps."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """A and d are not decayed."""
        undecayed = [self.a_log, self.d]
        others = [parameter for parameter in self.parameters() if all(parameter is not other for other in undecayed)]
        return [{"params": others}, {"params": undecayed, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        window = StateEntry((self.config.kernel - 1, self.inner))
        return {"window": window, "h": StateEntry(tuple(self.a_log.shape), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        u, z = self.in_proj(x).chunk(2, -1)
        convolved, window = convolve_after(u, self.conv_weight, self.conv_bias, state, lengths)
        old_state = state["h"] if state else None
        rank, B, C = self._rank_b_c(self.x_proj(convolved))
        delta = project(rank, self.dt_proj.weight)  # the scan adds its bias
        bias = self.dt_proj.bias
        y, h = selective(convolved, delta, self.a_log, B, C, old_state, bias=bias, skip=self.d, gate=z, lengths=lengths)
        return self.out_proj(y), {**window, "h": h} if state else {}

    @override
    def plots(self, x: Stream) -> list[View]:
        """Δ of each token, the gate, the rates of A, and the taps."""
        u, z = self.in_proj(x[:1]).chunk(2, -1)
        rank = self._rank_b_c(self.x_proj(convolve(u, self.conv_weight, self.conv_bias)))[0][0]
        axes = ("position", "channel")
        return [
            View("step", "how far each token moves each channel's states: its Δ", axes, F.softplus(self.dt_proj(rank))),
            View("gate", "what each channel's output is multiplied by", axes, F.silu(z)[0]),
            View("rate", "how fast each state is forgotten: -A, times Δ", ("channel", "state"), self.a_log.exp()),
            View("taps", "the weight of the input at each lag", ("lag", "channel"), self.conv_weight),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        rows, E, N, R = span.rows, self.inner, self.config.state_dim, self.rank
        normed = rootnorm(rows, R, gain=False) + 2 * rootnorm(rows, N, gain=False).parallel()
        return (
            self.in_proj,
            convolution_price(span, E, self.config.kernel),
            self.x_proj,
            None if self.config.norm_eps is None else normed,
            self.dt_proj,
            price(rows, E, N, gate=True),
            self.out_proj,
        )

    def _initialize(self) -> None:
        weights = self.a_log, self.dt_proj.bias, self.d, self.dt_proj.weight
        initial_weights.initialize_(*weights, self.config.dt_min, self.config.dt_max)
        for parameter in (self.conv_weight, self.conv_bias):
            nn.init.uniform_(parameter, -(self.config.kernel**-0.5), self.config.kernel**-0.5)

    def _rank_b_c(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """r, B and C from u' W_x; normalized if `norm_eps` is set."""
        N, eps = self.config.state_dim, self.config.norm_eps
        rank, B, C = projected.split((self.rank, N, N), -1)
        if eps is None:
            return rank, B, C
        rank, B, C = (rms_norm(tensor, tensor.shape[-1:], eps=eps) for tensor in (rank, B, C))
        return rank, B, C


@register
class MambaConfig(MixerConfig):
    """A Mamba block. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["mamba"] = "mamba"
    state_dim: int = Field(16, ge=1, description="states of each channel")
    expand: int = Field(2, ge=1, description="ratio of the inner width to the model's")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    dt_rank: int = Field(0, ge=0, description="rank of the projection to the step sizes Δ; 0 for dim / 16")
    dt_min: float = Field(1e-3, gt=0, description="smallest initial step size Δ")
    dt_max: float = Field(0.1, gt=0, description="largest initial step size Δ")
    norm_eps: float | None = Field(
        None,
        gt=0,
        description="ε of RMS norms of Δ, B and C; unset: no norms; Falcon Mamba: 1e-6",
    )
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"state_dim": 2, "expand": 1},
        {"state_dim": 3, "expand": 1, "kernel": 2, "dt_rank": 2, "norm_eps": 1e-2},
    )

    @model_validator(mode="after")
    def _in_order(self) -> "MambaConfig":
        if self.dt_min > self.dt_max:
            raise ValueError(f"the shortest step, {self.dt_min}, is longer than the longest, {self.dt_max}: swap them")
        return self

    @override
    def make(self, layer: Layer) -> Mamba:
        return Mamba(layer.dim, self)
