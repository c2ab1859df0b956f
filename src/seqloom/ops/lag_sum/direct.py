"""The lag sum in plain torch without transforms, exactly causal: `lags` by one product per tap, `toeplitz` by a matrix.

One product per tap over all positions at once is for taps of any shape. It takes T·L/2 products (the paper's count),
where the FFT takes T log T. A change of an input does not change earlier outputs even in the last bit, and integers
stay exact. The Toeplitz matrix is for taps that all channels share: y = M x, M_ij = w_{i-j} for 0 ≤ i-j < L, else 0. It
has T² numbers.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from seqloom.ops.fused.projection import onednn
from seqloom.ops.lag_sum.reference import product


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps of any of the four kinds → (B, T, D)."""
    T = x.shape[1]
    y = product(x, w[0])
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        for k in range(1, min(T, len(w))):
            y = y + pad(product(x[:, : T - k], w[k]), (0, 0, k, 0))
        return y
    for k in range(1, min(T, len(w))):
        y[:, k:] += product(x[:, : T - k], w[k])
    return y


def toeplitz(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps (L,) → (B, T, D)."""
    position = torch.arange(x.shape[1], device=x.device)
    lag = position[:, None] - position
    matrix = torch.where((lag >= 0) & (lag < len(w)), w[lag.clamp(0, len(w) - 1)], 0.0)
    matrix = matrix.to(x.dtype)
    if not torch.compiler.is_compiling() and onednn.faster() and onednn.supports(x, matrix, None):
        return conv1d(x, matrix[:, :, None])  # the same product with time as channels, which a faster library computes
    return matrix @ x
