"""The gated linear unit: the first half of the channels, gated by the second half.

    u = a ∘ σ(b)           a and b the halves of the last axis

Source: Dauphin et al., arXiv:1612.08083, Eq. 1. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost, sigmoid


def gate_halves(x: Float[Tensor, "*rows N"]) -> Float[Tensor, "*rows D"]:
    """a ∘ σ(b) for the two halves a and b of x, N = 2D."""
    a, b = x.chunk(2, -1)
    return a * torch.sigmoid(b)


def price(numbers: int) -> Cost:
    """The price of `numbers` gated outputs."""
    return sigmoid(numbers) + Cost(mul=numbers, path=("multiplication",))
