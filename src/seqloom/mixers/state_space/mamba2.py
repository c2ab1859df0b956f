"""Mamba-2: a selective state space with one decay per head, so that the state is a decayed sum of keys and values.

    (z, u, B, C, Δ) = x W_in                          E = `expand` D channels of z and u; H heads of width P; no biases
    (u, B, C) = silu(conv(u, B, C))                   B and C of N channels, shared by the heads of a group
    Δ = softplus(Δ + b),   g = -e^a Δ                                       per head
    S_t = e^{g_t} S_{t-1} + B_tᵀ (Δ_t u_t),   y_t = C_t S_t + d u_t         per head
    out = norm(y ∘ silu(z)) W_out                     norm(y) = y / √(mean of y² + ε) ∘ gain, over a group's channels

Before training e^a is uniform in (1, 16), softplus(b) log-uniform in (0.001, 0.1), d = 1; none of them is decayed.

Source: Dao and Gu, Transformers are SSMs, arXiv:2405.21060, section 7 and Eq. 16, and the authors' mamba_ssm. Their h_t
is S_tᵀ. The paper norms by groups for tensor parallelism; so does this. transformers' Mamba2 initializes e^a to 1 … H.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.base import PackedMixer
from seqloom.ops.fused.projection import project
from seqloom.ops.linear_decay import decay
from seqloom.ops.linear_decay.reference import price
from seqloom.ops.scan.selective_scan.initial_weights import initialize_steps_

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class Mamba2(PackedMixer):
    """A Mamba-2 block over `dim` channels. State: the convolution's last inputs, and S (B, H, N, P)."""

    traits = TRAITS

    def __init__(self, dim: int, config: "Mamba2Config") -> None:
        super().__init__()
        self.dim, self.inner, self.N, self.groups = dim, config.expand * dim, config.state_dim, config.groups
        self.width = min(config.head_width, self.inner)
        self.heads = self.inner // self.width
        if self.inner % self.width or self.heads % self.groups:
            heads = f"heads of width {self.width} in {self.groups} groups"
            raise ValueError(f"{config.expand} x {dim} channels do not divide into {heads}: change one of them")
        convolved = self.inner + 2 * self.groups * self.N
        self.w_in = Linear(dim, self.inner + convolved + self.heads, bias=False)
        self.conv = ShortConvolution(convolved, config.kernel, bias=True)
        self.a_log, self.step_bias, self.d = (nn.Parameter(torch.empty(self.heads)) for _ in range(3))
        self.norm = HeadNorm(self.groups, self.inner // self.groups, "silu first", config.norm_eps)
        self.w_out = Linear(self.inner, dim, bias=False)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """The rates, d and the taps are drawn again too."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        rates = [self.a_log, self.step_bias, self.d]
        others = [parameter for parameter in self.parameters() if all(parameter is not rate for rate in rates)]
        return [{"params": others}, {"params": rates, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"window": self.conv.entry, "S": StateEntry((self.heads, self.N, self.width), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        # Three products: slices of a single one would not be contiguous, and their gradients would be concatenated.
        z, ubc, logits = (project(x, w) for w in self.w_in.weight.split((self.inner, self.conv.dim, self.heads)))
        convolved, window = self.conv(ubc, state, lengths)
        u, B, C = convolved.split((self.inner, self.groups * self.N, self.groups * self.N), -1)
        u = u.unflatten(-1, (self.heads, self.width)).transpose(1, 2)  # (B, H, T, P)
        B, C = (tensor.unflatten(-1, (self.groups, self.N)).transpose(1, 2) for tensor in (B, C))  # (B, groups, T, N)
        step, g = (tensor.transpose(1, 2) for tensor in self._steps(logits))  # (B, H, T)
        u = u.to(torch.promote_types(u.dtype, step.dtype))
        y, S = decay(C, B, u, g, state["S"] if state else None, weight=step, skip=self.d, lengths=lengths)
        y = y.transpose(1, 2).flatten(2).unflatten(-1, (self.groups, -1)).transpose(1, 2)  # (B, groups, T, ·)
        return self.w_out(self.norm(y, z)), {**window, "S": S}

    @override
    def plots(self, x: Stream) -> list[View]:
        step, g = self._steps(self.w_in(x[0])[..., -self.heads :])
        return [
            View("step", "how much of a token is added: its Δ", ("token", "head"), step),
            View("decay", "how much of the state a token leaves", ("token", "head"), g.exp()),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n, E = span.rows * self.heads, span.rows * self.inner
        steps = Cost(mul=n, add=2 * n, exp=2 * n, other=2 * n, path=("addition", "exponentiation", "other"))
        scaled = Cost(mul=E, path=("multiplication",))
        summed = price(span.rows, self.heads, self.N, self.width, "head")
        skipped = Cost(mul=E).parallel() + Cost(add=E, path=("addition",))
        return self.w_in, self.conv, steps, scaled, summed, skipped, self.norm, self.w_out

    def _steps(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Δ and g (…, H), from the last H columns of x W_in."""
        step = softplus(logits + self.step_bias)
        return step, -self.a_log.expand_as(step).exp() * step

    @torch.no_grad()
    def _initialize(self) -> None:
        self.conv.init()
        self.a_log.copy_(torch.rand_like(self.a_log).mul_(15).add_(1).log_())
        initialize_steps_(self.step_bias)
        nn.init.ones_(self.d)


@register
class Mamba2Config(MixerConfig):
    """A Mamba-2 block. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["mamba2"] = "mamba2"
    state_dim: int = Field(128, ge=1, description="states of each channel")
    expand: int = Field(2, ge=1, description="ratio of the inner width to the model's")
    head_width: int = Field(64, ge=1, description="channels per head; all channels, if there are fewer")
    groups: int = Field(1, ge=1, description="groups of heads that share B and C")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    norm_eps: float = Field(1e-5, gt=0, description="ε added to the mean square in the norm")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"state_dim": 3, "expand": 1, "head_width": 4},
        {"state_dim": 2, "head_width": 4, "groups": 2, "kernel": 2},
    )

    @override
    def make(self, layer: Layer) -> Mamba2:
        return Mamba2(layer.dim, self)
