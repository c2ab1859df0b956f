"""DeltaNet: a matrix state in which a token's value replaces the value that its key reads, without decay.

    (q, k, v) = silu(conv(x W_qkv))             H heads of width K = D/H; no biases
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6)
    β = σ(x W_b), or 2σ(x W_b)                  per head
    S_t = S_{t-1} + β_t k_tᵀ (v_t - k_t S_{t-1}),   y_t = q_t S_t           per head
    out = norm(y) W_o                           norm(y) = y / √(mean of y² + 1e-5) ∘ gain, per head, one gain for all

With β above 1 (`negative`) the transitions I - β kᵀk have negative eigenvalues, with which the mixer can count
(arXiv:2411.12537).

Source: Schlag et al., arXiv:2102.11174, Eq. 24; Yang et al., arXiv:2406.06484, section 3, and the authors'
flash-linear-attention, which this computes. Schlag et al. have other features of keys and no convolution; √K and the
norm are of the program.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.view import View
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.base import PackedMixer
from seqloom.ops.delta_rule.gated import gated
from seqloom.ops.delta_rule.inputs import price as inputs_price
from seqloom.ops.delta_rule.reference import price
from seqloom.ops.fused.projection import convert_for_products

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class Delta(PackedMixer):
    """DeltaNet over `dim` channels. State: the convolution's last inputs, and S (B, H, K, K)."""

    traits = TRAITS

    def __init__(self, dim: int, config: "DeltaConfig") -> None:
        super().__init__()
        if dim % config.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {config.heads}: choose heads that divide dim")
        self.dim, self.heads, self.K = dim, config.heads, dim // config.heads
        self.largest_strength = 2.0 if config.negative else 1.0
        self.w_qkv, self.w_o = Linear(dim, 3 * dim, bias=False), Linear(dim, dim, bias=False)
        self.w_b = Linear(dim, self.heads, bias=False)
        self.conv = ShortConvolution(3 * dim, config.kernel)
        self.norm = HeadNorm(self.heads, self.K)

    @override
    def reset(self, std: float) -> None:
        """The taps are drawn again too."""
        super().reset(std)
        self.conv.init()

    @property
    @override
    def memory(self) -> Memory:
        return {"window": self.conv.entry, "S": Entry((self.heads, self.K, self.K), "wide")}

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        x = convert_for_products(x)
        convolved, window = self.conv(self.w_qkv(x), state, lengths)
        old_state = state["S"] if state else None
        y, S = gated(convolved, None, self._strength(x), old_state, heads=self.heads, K=self.K, lengths=lengths)
        return self.w_o(self.norm(y)), {**window, "S": S}

    @override
    def views(self, x: Stream) -> list[View]:
        return [View("write", "how much of what a key reads is replaced: β", ("token", "head"), self._strength(x[0]))]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, H, K = span.rows, self.heads, self.K
        strengths = (sigmoid(rows * H) + Cost(mul=rows * H * (self.largest_strength != 1.0))).parallel()
        factors = inputs_price(rows, H, H, K, 0)
        return self.w_qkv, self.conv, strengths, factors, price(rows, H, K, K), self.norm, self.w_o

    def _strength(self, x: Tensor) -> Tensor:
        """β (…, H) of tokens x (…, D)."""
        strength = torch.sigmoid(self.w_b(x))
        return strength if self.largest_strength == 1.0 else self.largest_strength * strength


@register
class DeltaConfig(MixerConfig):
    """DeltaNet. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["delta"] = "delta"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    negative: bool = Field(
        False, description="whether β reaches 2 instead of 1, so that transitions may have negative eigenvalues"
    )
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "kernel": 2, "negative": True})

    @override
    def make(self, layer: Layer) -> Delta:
        return Delta(layer.dim, self)
