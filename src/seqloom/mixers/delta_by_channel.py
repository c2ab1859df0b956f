"""What the delta-rule mixers share that have one decay rate per channel of the keys.

    (q, k, v) = silu(conv(x W_qkv))             H heads of width K = D/H; no biases but b_a and b_g
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6)
    g = -e^a softplus(x A₁ A₂ + b_a)            per channel of the keys; one a per head; A₁ A₂ of rank R
    out = (norm(y) ∘ σ(x G₁ G₂ + b_g)) W_o      norm(y) = y / √(mean of y² + ε) ∘ gain, per head, one gain for all

Before training e^a is uniform in (1, 16) and softplus(b_a) log-uniform in (0.001, 0.1); neither is decayed.
"""

from abc import ABC
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus
from typing_extensions import override

from seqloom.core.cost import Cost
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding
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


class DeltaByChannelSettings(MixerConfig, ABC):
    """The heads, the convolution, and the thin matrices."""

    heads: int = Field(4, ge=1, description="heads; divides dim")
    rank: int = Field(0, ge=0, description="rank of the matrices of the decay and of the gate; 0 for a head's width")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    gate_bias: bool = Field(True, description="whether the gate has biases")
    norm_eps: float = Field(1e-5, gt=0, description="ε added to the mean square in each head's norm")
    rounding: ClassVar = Rounding(
        384,
        "q, k and a head's output are each divided by the length of their few channels, which may be near 0: three "
        "times what such a norm may lose in `retention`; the gradient of a rate sums terms of both signs over all "
        "tokens and channels",
    )


class DeltaByChannel(PackedMixer, ABC):
    """The weights and the state of these mixers, over `dim` channels; W_b has `strengths` columns.

    State: the last inputs of the convolution, and S.
    """

    traits = TRAITS

    def __init__(self, dim: int, config: DeltaByChannelSettings, strengths: int) -> None:
        super().__init__()
        if dim % config.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {config.heads}: choose heads that divide dim")
        self.dim, self.heads, self.K = dim, config.heads, dim // config.heads
        rank = config.rank or self.K
        self.w_qkv, self.w_o = Linear(dim, 3 * dim, bias=False), Linear(dim, dim, bias=False)
        self.conv = ShortConvolution(3 * dim, config.kernel)
        self.decay_in, self.decay_out = Linear(dim, rank, bias=False), Linear(rank, dim)
        self.gate_in, self.gate_out = Linear(dim, rank, bias=False), Linear(rank, dim, bias=config.gate_bias)
        self.w_b = Linear(dim, strengths, bias=False)
        self.a_log = nn.Parameter(torch.empty(self.heads))
        self.norm = HeadNorm(self.heads, self.K, "sigmoid", config.norm_eps)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """The rates and the taps are drawn again too."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        rates = [self.a_log, self.decay_out.bias]
        others = [parameter for parameter in self.parameters() if all(parameter is not rate for rate in rates)]
        return [{"params": others}, {"params": rates, "weight_decay": 0.0}]

    @property
    @override
    def memory(self) -> Memory:
        return {"window": self.conv.entry, "S": Entry((self.heads, self.K, self.K), "wide")}

    def queries_keys_values(
        self, x: Stream, state: State | None, lengths: Lengths | None
    ) -> tuple[Tensor, Tensor, Tensor, Entries]:
        """q, k and v (B, H, T, K), and the window."""
        convolved, window = self.conv(self.w_qkv(x), state, lengths)
        q, k, v = convolved.unflatten(-1, (3, self.heads, self.K)).transpose(1, 3).unbind(2)
        return unit(q) / self.K**0.5, unit(k), v, window

    def log_decay(self, x: Tensor) -> Tensor:
        """g (…, H, K) of tokens x (…, D)."""
        logits = self.decay_out(self.decay_in(x)).unflatten(-1, (self.heads, self.K))
        return -self.a_log.expand(logits.shape[:-1]).exp()[..., None] * softplus(logits)

    def decay_view(self, x: Tensor) -> View:
        """The decay e^g of each channel, for x (T, D)."""
        decay = self.log_decay(x).exp().flatten(1)
        return View("decay", "how much of its channel of the state a token leaves", ("token", "channel"), decay)

    def prices_before(self, rows: int) -> Iterable[Cost | nn.Module]:
        """The prices on the critical path before the strengths, for `rows` tokens."""
        n, heads = rows * self.dim, rows * self.heads
        decay_rates = Cost(mul=n, add=n, exp=n + heads, other=n + heads)
        normalized = unit_price(2 * heads, self.K) + Cost(div=n, path=("division",))
        return self.w_qkv, self.conv, decay_rates, normalized

    @torch.no_grad()
    def _initialize(self) -> None:
        self.conv.init()
        self.a_log.copy_(torch.rand_like(self.a_log).mul_(15).add_(1).log_())
        initialize_steps_(self.decay_out.bias)
