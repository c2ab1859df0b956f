"""The norms that a model may have around its layers.

    layer:  (x - mean) / √(variance + ε) ∘ g + b           Ba et al., arXiv:1607.06450
    rms:    x / √(mean of x² + ε) ∘ g                      Zhang and Sennrich, arXiv:1910.07467; Mamba's

ε is 1e-5 by default; means are over the channels of each token.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

from torch import nn

from seqloom.ops.fused.rms_norm import RMSNorm

Norm: TypeAlias = Literal["layer", "rms"]
NewNorm: TypeAlias = Callable[[int], nn.Module]
"""makes a norm of so many channels"""


def build_norm(kind: Norm, dim: int, eps: float = 1e-5) -> nn.Module:
    """The norm of `dim` channels, at gain 1."""
    return nn.LayerNorm(dim, eps=eps) if kind == "layer" else RMSNorm(dim, eps=eps)
