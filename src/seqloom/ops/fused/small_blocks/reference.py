"""The products as they are written, and their price, counted from them."""

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def products(x: Tensor, w: Tensor) -> Tensor:
    """x (B, T, N n), w (N, n, n) → (B, T, N n)."""
    blocks = x.unflatten(-1, w.shape[:2])  # (B, T, N, n)
    return torch.einsum("...bi,bij->...bj", blocks, w).flatten(-2)


def price(rows: int, channels: int, block: int) -> Cost:
    """The price for `rows` rows."""
    n = rows * channels
    return Cost(mul=n * block, add=n * (block - 1), path=("multiplication", "cumulation"))
