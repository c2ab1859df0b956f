"""What the delta-rule mixers share that have one decay per head: projections, rates, state and settings.

    (q, k, v) = silu(conv(x W_qkv))             n keys and n values per token; H heads of keys, H' heads of values
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6); H'/H heads of v share one of q and k
    g = -e^a softplus(x W_a + b_a)              per head of values
    β = σ(x W_b), or 2σ(x W_b)                  per head of values and step

Before training e^a is uniform in (0, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed.
"""

from abc import ABC
from collections.abc import Iterable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus
from typing_extensions import override

from seqloom.core.cost import Cost, sigmoid
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.view import View
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.base import PackedMixer
from seqloom.ops.delta_rule.keys import unit, unit_price
from seqloom.ops.scan.selective_scan.initial_weights import initialize_steps_

TRAITS = Traits(causal="always", streams=True, state="constant")


class DeltaByHeadSettings(MixerConfig, ABC):
    """The heads, the convolution and the rates."""

    heads: int = Field(4, ge=1, description="heads of queries and keys")
    value_heads: int = Field(0, ge=0, description="heads of values, a multiple of heads; 0 for as many")
    key_width: int = Field(0, ge=0, description="width of a key; 0 for 3/4 of dim over all heads, rounded down")
    value_width: int = Field(0, ge=0, description="width of a value; 0 for twice that of a key")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    negative: bool = Field(
        False, description="whether β reaches 2 instead of 1, so that transitions may have negative eigenvalues"
    )
    norm_eps: float = Field(1e-5, gt=0, description="ε added to the mean square in each head's norm")


class DeltaByHead(PackedMixer, ABC):
    """The common part of the mixers, over `dim` channels. State: the convolution's last inputs, and S (B, H', K, V)."""

    traits = TRAITS
    w_a: Linear | None
    a_log: nn.Parameter | None
    w_g: Linear | None

    def __init__(
        self, dim: int, config: DeltaByHeadSettings, steps: int = 1, decay: bool = True, gate: bool = True
    ) -> None:
        super().__init__()
        self.dim, self.heads, self.value_heads = dim, config.heads, config.value_heads or config.heads
        if not config.key_width and 3 * dim < 4 * self.heads:
            raise ValueError(f"3/4 of dim {dim} is too narrow for {self.heads} heads: choose fewer, or set key_width")
        if self.value_heads % self.heads:
            raise ValueError(f"{self.value_heads} value heads are no multiple of {self.heads} heads: choose one")
        self.K = config.key_width or 3 * dim // (4 * self.heads)
        self.V = config.value_width or 2 * self.K
        self.steps = steps
        self.largest_strength = 2.0 if config.negative else 1.0
        value_columns = self.value_heads * self.V
        self.sizes = [self.heads * self.K, steps * self.heads * self.K, steps * value_columns]
        """columns of W_q, W_k and W_v"""
        self.w_qkv = Linear(dim, sum(self.sizes), bias=False)
        self.conv = ShortConvolution(sum(self.sizes), config.kernel)
        self.w_a = Linear(dim, self.value_heads) if decay else None
        self.w_b = Linear(dim, steps * self.value_heads, bias=False)
        self.a_log = nn.Parameter(torch.empty(self.value_heads)) if decay else None
        self.w_g = Linear(dim, value_columns, bias=False) if gate else None
        self.w_o = Linear(value_columns, dim, bias=False)
        self.norm = HeadNorm(self.value_heads, self.V, "silu" if gate else "none", config.norm_eps)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """The rates and the taps are drawn again too."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        rates = [] if self.w_a is None else [self.a_log, self.w_a.bias]
        others = [parameter for parameter in self.parameters() if all(parameter is not rate for rate in rates)]
        groups: list[dict[str, Any]] = [{"params": others}]
        return [*groups, {"params": rates, "weight_decay": 0.0}] if rates else groups

    @property
    @override
    def memory(self) -> Memory:
        return {"window": self.conv.entry, "S": Entry((self.value_heads, self.K, self.V), "wide")}

    def queries_keys_values(
        self, x: Stream, state: State | None, lengths: Lengths | None
    ) -> tuple[Tensor, Tensor, Tensor, Entries]:
        """q (B, H', T, K), k (B, H', T, n, K) and v (B, H', T, n, V), and the window."""
        convolved, window = self.conv(self.w_qkv(x), state, lengths)
        q, k, v = convolved.split(self.sizes, -1)
        q = unit(q.unflatten(-1, (self.heads, self.K))).transpose(1, 2) / self.K**0.5
        k = unit(k.unflatten(-1, (self.steps, self.heads, self.K))).permute(0, 3, 1, 2, 4)
        if self.value_heads > self.heads:
            q, k = (tensor.repeat_interleave(self.value_heads // self.heads, 1) for tensor in (q, k))
        v = v.unflatten(-1, (self.steps, self.value_heads, self.V)).permute(0, 3, 1, 2, 4)
        return q, k, v, window

    def log_decay(self, x: Tensor) -> Tensor:
        """g (…, H') of tokens x (…, D); only for a mixer with decay."""
        assert self.w_a is not None
        assert self.a_log is not None
        logits = self.w_a(x)
        return -self.a_log.expand_as(logits).exp() * softplus(logits)

    def strength(self, x: Tensor) -> Tensor:
        """β (…, n, H') of tokens x (…, D)."""
        strength = torch.sigmoid(self.w_b(x)).unflatten(-1, (self.steps, self.value_heads))
        return strength if self.largest_strength == 1.0 else self.largest_strength * strength

    @override
    def views(self, x: Stream) -> list[View]:
        strength, axes = self.strength(x[0]), ("token", "head")
        meaning = "how much of what a key reads is replaced: β"
        writes = [
            View("write" if self.steps == 1 else f"write of step {j + 1}", meaning, axes, strength[:, j])
            for j in range(self.steps)
        ]
        if self.w_a is None:
            return writes
        return [View("decay", "how much of the state a token leaves", axes, self.log_decay(x[0]).exp()), *writes]

    def prices_before(self, rows: int) -> Iterable[Cost | nn.Module]:
        """The prices on the critical path before the delta rule, for `rows` tokens."""
        H, strengths = self.value_heads, rows * self.steps * self.value_heads
        vectors = rows * (1 + self.steps) * self.heads  # of queries and keys
        normalized = unit_price(vectors, self.K) + Cost(div=rows * self.heads * self.K, path=("division",))
        strength_price = sigmoid(strengths).parallel() + Cost(mul=strengths * (self.largest_strength != 1.0))
        yield from (self.w_qkv, self.conv, normalized, strength_price)
        if self.w_a is not None:
            yield Cost(mul=rows * H, add=rows * H, exp=2 * rows * H, other=2 * rows * H)

    @torch.no_grad()
    def _initialize(self) -> None:
        self.conv.init()
        if self.w_a is not None and self.a_log is not None:
            self.a_log.copy_(torch.rand_like(self.a_log).mul_(16).clamp_(min=1e-3).log_())
            initialize_steps_(self.w_a.bias)
