"""The reference of the lag sum: output by output and lag by lag, with only the terms of the equation."""

import torch
from torch import Tensor


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps of any of the four kinds → (B, T, D)."""
    outputs = []
    for i in range(x.shape[1]):
        y = product(x[:, i], w[0])
        for k in range(1, min(i + 1, len(w))):
            y = y + product(x[:, i - k], w[k])
        outputs.append(y)
    return torch.stack(outputs, 1)


def product(x: Tensor, tap: Tensor) -> Tensor:
    """One tap applied to tokens (…, D): a scalar, a vector (D,), a matrix (D, D), or G of them (G, D/G, D/G)."""
    if tap.ndim < 2:
        return x * tap
    if tap.ndim == 2:
        return x @ tap
    grouped = x.unflatten(-1, (tap.shape[0], tap.shape[1]))
    return (grouped.unsqueeze(-2) @ tap).squeeze(-2).flatten(-2)
