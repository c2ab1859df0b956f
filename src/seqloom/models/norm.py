"""The norms that a model may have around its layers.

    layer:  (x - mean) / √(variance + ε) ∘ g + b           Ba et al., arXiv:1607.06450
    rms:    x / √(mean of x² + ε) ∘ g                      Zhang and Sennrich, arXiv:1910.07467; Mamba's

ε is 1e-5 by default; means are over the channels of each token.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from seqloom.core.hooks import hooked
from seqloom.core.shapes import Token
from seqloom.ops.rms_norm import RMSNorm, rms_norm

Norm: TypeAlias = Literal["layer", "rms"]
NewNorm: TypeAlias = Callable[[int], nn.Module]
"""makes a norm of so many channels"""


def build_norm(kind: Norm, dim: int, eps: float = 1e-5) -> nn.Module:
    """The norm of `dim` channels, at gain 1."""
    return nn.LayerNorm(dim, eps=eps) if kind == "layer" else RMSNorm(dim, eps=eps)


def norm_token(norm: nn.Module, x: Token) -> Token:
    """`norm(x)` of one token per row; without hooks on the module, by the functional form, which is faster."""
    if type(norm) is nn.LayerNorm and not hooked(norm):
        parameters = norm._parameters
        return torch.layer_norm(x, norm.normalized_shape, parameters["weight"], parameters["bias"], norm.eps)
    if type(norm) is RMSNorm and not hooked(norm):
        return rms_norm(x, norm.normalized_shape, norm._parameters["weight"], norm.eps)
    y: Tensor = norm(x)
    return y
