"""The reference: the recurrent cells token by token. Prices count its operations."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

Cell = Callable[..., tuple[Tensor, ...]]
"""cell(a, *weights, *state) → the state after a token whose input is a = x W_in + b, its output h first"""


def elman(a: Tensor, w: Tensor, h: Tensor) -> tuple[Tensor]:
    """h = tanh(a + h W)."""
    return (torch.tanh(a + linear(h, w)),)


def lstm(a: Tensor, w: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """c = f ∘ c + i ∘ g, h = o ∘ tanh(c)."""
    i, f, g, o = (a + linear(h, w)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru(a: Tensor, w: Tensor, h: Tensor) -> tuple[Tensor]:
    """n = tanh(a_n + (r ∘ h) W_n), h = (1 - z) ∘ n + z ∘ h."""
    N = h.shape[-1]
    r, z = torch.sigmoid(a[:, : 2 * N] + linear(h, w[: 2 * N])).chunk(2, -1)
    n = torch.tanh(a[:, 2 * N :] + linear(r * h, w[2 * N :]))
    return ((1 - z) * n + z * h,)


def gru_after(a: Tensor, w: Tensor, inner: Tensor, h: Tensor) -> tuple[Tensor]:
    """n = tanh(a_n + r ∘ (h W_n + b_n)), h = (1 - z) ∘ n + z ∘ h."""
    N = h.shape[-1]
    r, z = torch.sigmoid(a[:, : 2 * N] + linear(h, w[: 2 * N])).chunk(2, -1)
    n = torch.tanh(a[:, 2 * N :] + r * linear(h, w[2 * N :], inner))
    return ((1 - z) * n + z * h,)


CELLS: dict[str, Cell] = {"elman": elman, "lstm": lstm, "gru": gru, "gru_after": gru_after}


def states(
    cell: str, x: Tensor, w_in: Tensor, bias: Tensor, weights: tuple[Tensor, ...], state: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """All states (B, T+1, N), with the one before the first token."""
    states = [state]
    for a in linear(x, w_in, bias).unbind(1):
        states.append(CELLS[cell](a, *weights, *states[-1]))
    return tuple(torch.stack(part, 1) for part in zip(*states, strict=True))


def read(
    cell: str,
    x: Tensor,
    w_in: Tensor,
    bias: Tensor,
    weights: tuple[Tensor, ...],
    state: tuple[Tensor, ...],
    lengths: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """(B, T, D) → the outputs (B, T, N), and the state after `lengths` tokens of each row or after the last."""
    every = states(cell, x, w_in, bias, weights, state)
    return every[0][:, 1:], tuple(after(states, lengths) for states in every)


def after(states: Tensor, lengths: Tensor | None) -> Tensor:
    """The state (B, N) after `lengths` (B,) tokens of each row, or after the last, from all states; a copy."""
    if lengths is None:
        return states[:, -1].clone()
    return states[torch.arange(len(states), device=states.device), lengths]
