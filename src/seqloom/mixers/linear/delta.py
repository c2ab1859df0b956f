"""DeltaNet: a matrix state in which a token's value replaces the value that its key reads, without decay.

    (q, k, v) = silu(conv(x W_qkv))             H heads of width K = D/H; no biases
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6)
    β = σ(x W_b), or 2σ(x W_b)                  per head
    S_t = S_{t-1} + β_t k_tᵀ (v_t - k_t S_{t-1}),   y_t = q_t S_t           per head
    out = norm(y) W_o                           norm(y) = y / √(mean of y² + ε) ∘ gain, per head, one gain for all

With β above 1 (`negative`) the transitions I - β kᵀk have negative eigenvalues, with which the mixer can count
(arXiv:2411.12537).

Source: Schlag et al., arXiv:2102.11174, Eq. 24; Yang et al., arXiv:2406.06484, section 3, and the authors'
flash-linear-attention, which this computes. Schlag et al. have other features of keys and no convolution; √K and the
norm are of the program.
"""

from typing import ClassVar, Literal, final

from pydantic import Field
from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.layers.short_convolution import ShortConvolution
from seqloom.mixers.delta_heads import TRAITS, DeltaHeads


@final
class Delta(DeltaHeads):
    """DeltaNet over `dim` channels. State: the convolution's last inputs, and S (B, H, K, K)."""

    def __init__(self, dim: int, config: "DeltaConfig") -> None:
        if dim % config.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {config.heads}: choose heads that divide dim")
        K = dim // config.heads
        super().__init__(dim, config.heads, config.heads, K, K, config.negative)
        self.w_qkv, self.w_o = Linear(dim, 3 * dim, bias=False), Linear(dim, dim, bias=False)
        self.w_b = Linear(dim, self.heads, bias=False)
        self.conv = ShortConvolution(3 * dim, config.kernel)
        self.norm = HeadNorm(self.heads, K, eps=config.norm_eps)


@register
class DeltaConfig(MixerConfig):
    """DeltaNet. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["delta"] = "delta"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    kernel: int = Field(4, ge=1, description="width of the causal convolution, in tokens")
    negative: bool = Field(
        False, description="whether β reaches 2 instead of 1, so that transitions may have negative eigenvalues"
    )
    norm_eps: float = Field(1e-5, gt=0, description="ε added to the mean square in each head's norm")
    later: ClassVar = ("norm_eps",)
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1, "kernel": 2, "negative": True})

    @override
    def make(self, layer: Layer) -> Delta:
        return Delta(layer.dim, self)
