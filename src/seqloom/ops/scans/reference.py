"""The recurrence as it is written: token by token. Counting its operations prices the equation."""

import torch
from torch import Tensor


def scan(a: Tensor, b: Tensor, state: Tensor | None) -> Tensor:
    """a (N,) or (B, T, N), b (B, T, N), state (B, N) → every h (B, T, N)."""
    h, states = state, []
    for t, given in enumerate(b.unbind(1)):
        h = given if h is None else (a if a.ndim == 1 else a[:, t]) * h + given
        states.append(h)
    return torch.stack(states, 1)
