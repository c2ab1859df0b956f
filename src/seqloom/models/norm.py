"""The norms that a model may have around its layers.

    layer:  (x - mean) / √(variance + ε) ∘ g + b           Ba et al., arXiv:1607.06450
    rms:    x / √(mean of x² + ε) ∘ g                      Zhang and Sennrich, arXiv:1910.07467; Mamba's

ε = 1e-5, over the channels of each token.
"""

from typing import Literal, TypeAlias

from torch import nn

Norm: TypeAlias = Literal["layer", "rms"]
EPS = 1e-5


def normalisation(kind: Norm, dim: int) -> nn.Module:
    """The norm of `dim` channels, at gain 1."""
    return nn.LayerNorm(dim, eps=EPS) if kind == "layer" else nn.RMSNorm(dim, eps=EPS)
