"""The products as they are written."""

import torch
from torch import Tensor


def products(x: Tensor, w: Tensor) -> Tensor:
    """x (B, T, N n), w (N, n, n) → (B, T, N n)."""
    return torch.einsum("...bi,bij->...bj", x.unflatten(-1, w.shape[:2]), w).flatten(-2)
