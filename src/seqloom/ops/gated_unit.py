"""The gated linear unit: half of what comes in is let through by the other half.

    u = a ∘ σ(b)           a and b the halves of the last axis

Source: Dauphin et al., arXiv:1612.08083, Eq. 1. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost, linear


def gated(both: Float[Tensor, "*rows N"]) -> Float[Tensor, "*rows D"]:
    """a ∘ σ(b) for N = 2D."""
    a, b = both.chunk(2, -1)
    return a * torch.sigmoid(b)


def price(rows: int, dim: int, width: int) -> Cost:
    """The projection of `rows` tokens of `dim` channels to twice `width`, and the gate."""
    gate = Cost(
        mul=rows * width,
        add=rows * width,
        div=rows * width,
        exp=rows * width,
        path=("exponentiation", "addition", "division", "multiplication"),
    )
    return linear(rows, dim, 2 * width) + gate
