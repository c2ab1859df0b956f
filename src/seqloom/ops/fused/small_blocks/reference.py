"""The products as they are written, and their price, counted from them."""

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def products(x: Tensor, w: Tensor) -> Tensor:
    """x (B, T, N n), w (N, n, n) → (B, T, N n)."""
    blocks = x.reshape(-1, *w.shape[:2]).transpose(0, 1)  # (N, B T, n)
    return torch.bmm(blocks, w).transpose(0, 1).reshape(x.shape)


def price(rows: int, channels: int, block: int) -> Cost:
    """The price for `rows` rows."""
    n = rows * channels
    return Cost(mul=n * block, add=n * (block - 1), path=("multiplication", "cumulation"))
