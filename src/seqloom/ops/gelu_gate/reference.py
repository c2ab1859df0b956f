"""The gate as it is written."""

from torch import Tensor
from torch.nn.functional import gelu


def gated(h: Tensor, z: Tensor) -> Tensor:
    """h ∘ GELU(z)."""
    return h * gelu(z, approximate="tanh")
