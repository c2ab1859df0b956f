"""The lag sum with taps that all channels share, as one product with a lower-triangular Toeplitz matrix.

y = M x,   M_ij = w_{i-j} for 0 ≤ i-j < L, else 0                exactly causal; T² numbers for M
"""

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from seqloom.ops.projection import onednn


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps (L,) → (B, T, D)."""
    position = torch.arange(x.shape[1], device=x.device)
    lag = position[:, None] - position
    matrix = torch.where((lag >= 0) & (lag < len(w)), w[lag.clamp(0, len(w) - 1)], 0.0)
    matrix = matrix.to(x.dtype)
    if onednn.faster() and not torch.compiler.is_compiling() and onednn.able(x, matrix, None):
        return conv1d(x, matrix[:, :, None])  # the same product with time as channels, which a faster library computes
    return matrix @ x
