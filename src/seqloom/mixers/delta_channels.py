"""The weights of the delta-rule mixers in which each channel of the keys decays at a rate of its own.

    H heads of keys and values of width K = D/H
    rate(x) = x A₁ A₂ + b_a,   gate(x) = x G₁ G₂ + b_g       A₁ A₂ and G₁ G₂ of rank R; one a per head

`delta_heads` has the rule. Before training e^a is uniform in (1, 16).
"""

from abc import ABC
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.mixer_config import MixerConfig, Rounding
from seqloom.core.shapes import Stream
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.delta_heads import DeltaHeads


class ChannelSettings(MixerConfig, ABC):
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


class DeltaChannels(DeltaHeads, ABC):
    """The weights of these mixers, over `dim` channels; W_b has `strengths` columns."""

    decay = "channel"
    least_rate = 1.0

    def __init__(self, dim: int, config: ChannelSettings, strengths: int, negative: bool = False) -> None:
        if dim % config.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {config.heads}: choose heads that divide dim")
        K = dim // config.heads
        super().__init__(dim, config.heads, config.heads, K, K, negative)
        rank = config.rank or K
        self.w_qkv, self.w_o = Linear(dim, 3 * dim, bias=False), Linear(dim, dim, bias=False)
        self.conv = ShortConvolution(3 * dim, config.kernel)
        self.decay_in, self.decay_out = Linear(dim, rank, bias=False), Linear(rank, dim)
        self.gate_in, self.gate_out = Linear(dim, rank, bias=False), Linear(rank, dim, bias=config.gate_bias)
        self.w_b = Linear(dim, strengths, bias=False)
        self.a_log = nn.Parameter(torch.empty(config.heads))
        self.norm = HeadNorm(config.heads, K, "sigmoid", config.norm_eps)
        self.initialize()

    @property
    @override
    def rate_layer(self) -> Linear:
        return self.decay_out

    @override
    def rate(self, x: Tensor) -> Tensor:
        return self.decay_out(self.decay_in(x)).unflatten(-1, (self.heads, self.K))

    @override
    def gate(self, x: Stream) -> Tensor:
        return self.gate_out(self.gate_in(x))
