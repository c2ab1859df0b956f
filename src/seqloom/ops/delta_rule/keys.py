"""Keys and queries of length 1, as the delta rule needs them: longer keys would erase more than the state holds.

    x / √(Σ x² + 1e-6)                  over the channels of a head

Source: flash-linear-attention's `l2norm`. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost

EPS = 1e-6


def unit(x: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows K"]:
    """Each vector over its length."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPS)


def price(rows: int, K: int) -> Cost:
    """The operations of `rows` vectors."""
    path = ("multiplication", "cumulation", "addition", "other", "division", "multiplication")
    return Cost(mul=2 * rows * K, add=rows * K, div=rows, other=rows, path=path)
