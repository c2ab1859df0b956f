"""What the mixers of the delta rule share: the rule itself, its rates, its state, and their prices.

    (q, k, v) = silu(conv(x W_qkv))             H heads of q and k of width K, H' heads of v of width V
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6); H'/H heads of v share one of q and k
    g = -e^a softplus(rate(x))                  per head of values, or per channel of its keys; or no decay
    β = σ(x W_b), or 2σ(x W_b)                  per head of values
    S' = diag(e^{g_t}) S_{t-1},   S_t = S' + β_t k_tᵀ (v_t - k_t S'),   y_t = q_t S_t
    out = norm(y) W_o                           the norm of each head, with a gate if there is one

A mixer builds these weights, and has its own `rate` and `gate`; another rule is its `apply_rule`. Before training
e^a is uniform in (`least_rate`, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed.
"""

from abc import ABC
from collections.abc import Iterable
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.base import PackedMixer
from seqloom.ops.delta_rule.gated import gated_delta, input_price
from seqloom.ops.delta_rule.reference import price as rule_price
from seqloom.ops.fused.projection import convert_for_products
from seqloom.ops.scan.selective_scan.initial_weights import initialize_steps_

TRAITS = Traits(causal="always", streams=True, state="constant")


class WidthSettings(MixerConfig, ABC):
    """Heads of keys and of values of any width, and the convolution."""

    heads: int = Field(4, ge=1, description="heads of queries and keys")
    value_heads: int = Field(0, ge=0, description="heads of values, a multiple of heads; 0 for as many")
    key_width: int = Field(0, ge=0, description="width of a key; 0 for 3/4 of dim over all heads, rounded down")
    value_width: int = Field(0, ge=0, description="width of a value; 0 for twice that of a key")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    negative: bool = Field(
        False, description="whether β reaches 2 instead of 1, so that transitions may have negative eigenvalues"
    )
    norm_eps: float = Field(1e-5, gt=0, description="ε added to the mean square in each head's norm")

    def widths(self, dim: int) -> tuple[int, int, int, int]:
        """H, H', K and V. ValueError where they do not fit."""
        value_heads = self.value_heads or self.heads
        if not self.key_width and 3 * dim < 4 * self.heads:
            raise ValueError(f"3/4 of dim {dim} is too narrow for {self.heads} heads: choose fewer, or set key_width")
        if value_heads % self.heads:
            raise ValueError(f"{value_heads} value heads are no multiple of {self.heads} heads: choose one")
        K = self.key_width or 3 * dim // (4 * self.heads)
        return self.heads, value_heads, K, self.value_width or 2 * K


class DeltaHeads(PackedMixer, ABC):
    """The common part of the mixers, over `dim` channels. State: the convolution's last inputs, and S (B, H', K, V)."""

    traits = TRAITS
    decay: Literal["none", "head", "channel"] = "none"
    """what decays at a rate of its own"""
    least_rate: float = 0.0
    w_qkv: Linear
    w_b: Linear
    w_o: Linear
    conv: ShortConvolution
    norm: HeadNorm
    a_log: nn.Parameter | None

    def __init__(self, dim: int, heads: int, value_heads: int, K: int, V: int, negative: bool = False) -> None:
        super().__init__()
        self.dim, self.heads, self.value_heads, self.K, self.V = dim, heads, value_heads, K, V
        self.largest_strength = 2.0 if negative else 1.0

    @property
    def rate_layer(self) -> Linear | None:
        """The layer whose bias is b_a; None without decay."""
        return None

    def rate(self, x: Tensor) -> Tensor:
        """What softplus reads of tokens x (…, D): (…, H') or (…, H', K); only for a mixer with decay."""
        assert self.rate_layer is not None
        return self.rate_layer(x)

    def gate(self, x: Stream) -> Tensor | None:
        """What the norm's gate reads (B, T, H' V), if it has one."""
        return None

    @override
    def reset(self, std: float) -> None:
        """The rates and the taps are drawn again too."""
        super().reset(std)
        self.initialize()

    @torch.no_grad()
    def initialize(self) -> None:
        """Draws the taps, e^a and b_a."""
        self.conv.init()
        if self.rate_layer is not None and self.a_log is not None:
            rates = torch.rand_like(self.a_log).mul_(16 - self.least_rate).add_(self.least_rate)
            self.a_log.copy_(rates.clamp_(min=1e-3).log_())
            initialize_steps_(self.rate_layer.bias)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        rates = [] if self.rate_layer is None else [self.a_log, self.rate_layer.bias]
        others = [parameter for parameter in self.parameters() if all(parameter is not rate for rate in rates)]
        groups: list[dict[str, Any]] = [{"params": others}]
        return [*groups, {"params": rates, "weight_decay": 0.0}] if rates else groups

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"window": self.conv.entry, "S": StateEntry((self.value_heads, self.K, self.V), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        x = convert_for_products(x)
        qkv, window = self.conv(self.w_qkv(x), state, lengths)
        y, S = self.apply_rule(x, qkv, state["S"] if state else None, lengths)
        return self.w_o(self.norm(y, self.gate(x))), {**window, "S": S}

    def apply_rule(
        self, x: Stream, qkv: Float[Tensor, "B T C"], S: Tensor | None, lengths: Lengths | None
    ) -> tuple[Tensor, Tensor]:
        """The outputs y (B, H', T, V) of the heads, and the state after them."""
        g, strength = self.log_decay(x), self.strength(x)
        return gated_delta(qkv, g, strength, S, heads=self.heads, K=self.K, lengths=lengths)

    def log_decay(self, x: Tensor) -> Tensor | None:
        """g (…, H') or (…, H', K) of tokens x (…, D); None without decay."""
        if self.rate_layer is None or self.a_log is None:
            return None
        rates = self.a_log.expand(*x.shape[:-1], -1).exp()
        if self.decay == "channel":
            rates = rates[..., None]
        return -rates * softplus(self.rate(x))

    def strength(self, x: Tensor) -> Tensor:
        """β (…, H') of tokens x (…, D)."""
        strength = torch.sigmoid(self.w_b(x))
        return strength if self.largest_strength == 1.0 else self.largest_strength * strength

    @override
    def plots(self, x: Stream) -> list[View]:
        meaning = "how much of what a key reads is replaced: β"
        return [*self.decay_views(x), View("write", meaning, ("token", "head"), self.strength(x[0]))]

    def decay_views(self, x: Stream) -> list[View]:
        """The decay e^g of the tokens of the first row, if there is one."""
        g = self.log_decay(x[0])
        if g is None:
            return []
        if self.decay == "head":
            return [View("decay", "how much of the state a token leaves", ("token", "head"), g.exp())]
        meaning = "how much of its channel of the state a token leaves"
        return [View("decay", meaning, ("token", "channel"), g.exp().flatten(1))]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        decays = self._decays
        inputs = input_price(span.rows, self.heads, self.value_heads, self.K, decays)
        rule = rule_price(span.rows, self.value_heads, self.K, self.V, self.decay)
        return *self.prices_before(span.rows), self.strength_price(span.rows), inputs, rule, self.norm, self.w_o

    def prices_before(self, rows: int) -> Iterable[Cost | nn.Module]:
        """The prices of the convolution and of the rates, for `rows` tokens."""
        rates = rows * self.value_heads * bool(self._decays)
        numbers = rows * self.value_heads * self._decays
        return self.w_qkv, self.conv, Cost(mul=numbers, add=numbers, exp=numbers + rates, other=numbers + rates)

    def strength_price(self, rows: int, steps: int = 1) -> Cost:
        """The price of β for `rows` tokens."""
        strengths = rows * steps * self.value_heads
        return (sigmoid(strengths) + Cost(mul=strengths * (self.largest_strength != 1.0))).parallel()

    @property
    def _decays(self) -> int:
        """The decay rates of a head."""
        return {"none": 0, "head": 1, "channel": self.K}[self.decay]
