"""The lag sum as one product per tap over all positions at once: exactly causal, for taps of any shape.

It takes T·L/2 products (the paper's count), where the FFT takes T log T. A change of an input does not change earlier
outputs even in the last bit, and integers stay exact.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

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
