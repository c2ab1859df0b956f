"""y = C_n (x C_D) - S_n (x S_D) as it is written, with the matrices of cosines C and sines S, and its price.

The price is counted from these matrix products, with given cosines and sines; fast transforms execute fewer operations.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def fourier(x: Tensor, lengths: Tensor | None) -> Tensor:
    """See `fourier` of the package."""
    if lengths is None:
        return torch.stack([_row(row) for row in x])
    y = torch.zeros_like(x)
    for b, n in enumerate(lengths.tolist()):
        y[b, :n] = _row(x[b, :n])
    return y


def _row(x: Tensor) -> Tensor:
    n, D = x.shape
    cosines = _table(math.cos, n, x) @ (x @ _table(math.cos, D, x))
    sines = _table(math.sin, n, x) @ (x @ _table(math.sin, D, x))
    return cosines - sines


def _table(wave: Callable[[float], float], n: int, like: Tensor) -> Tensor:
    """wave(2π s t / n) for every s and t below n."""
    values = [[wave(2 * math.pi * (s * t % n) / n) for t in range(n)] for s in range(n)]
    return torch.tensor(values, dtype=like.dtype, device=like.device)


def price(rows: int, dim: int) -> Cost:
    """The price of a row of `rows` tokens: two products over channels, two over tokens, and their difference."""
    n = rows * dim
    return Cost(
        mul=2 * n * (dim + rows),
        add=2 * n * (dim - 1 + rows - 1) + n,
        path=("multiplication", "cumulation", "multiplication", "cumulation", "addition"),
    )
