"""The recurrent cells as they are written, token by token, and their prices, counted from them.

The price is that of `rows` tokens and N units, the same for every token. The products with W_in and with the matrix of
the state are not included, since these matrices are linear layers of the mixer, which have their own price. The sum of
both products is included.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

from seqloom.core.cost import Cost

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
    """All states (B, T+1, N): before the first token and after each token."""
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
    all_states = states(cell, x, w_in, bias, weights, state)
    return all_states[0][:, 1:], tuple(state_after(tensor, lengths) for tensor in all_states)


def state_after(states: Tensor, lengths: Tensor | None) -> Tensor:
    """The state (B, N) after `lengths` (B,) tokens of each row, or after the last, from all states; a copy."""
    if lengths is None:
        return states[:, -1].clone()
    return states[torch.arange(len(states), device=states.device), lengths]


def elman_price(rows: int, N: int) -> Cost:
    """The price of the Elman cell: a sum and a tanh per unit."""
    n = rows * N
    return Cost(mul=n, add=3 * n, div=n, exp=n, path=("addition", "exponentiation", "addition", "division"))


def lstm_price(rows: int, N: int) -> Cost:
    """The price of the LSTM cell: four sums, three sigmoids, two tanhs, three products and a sum."""
    n = rows * N
    return Cost(
        mul=(2 + 3) * n,
        add=(4 + 3 + 4 + 1) * n,
        div=5 * n,
        exp=5 * n,
        path=(
            *("addition", "exponentiation", "addition", "division"),
            *("multiplication", "addition", "exponentiation", "addition", "division", "multiplication"),
        ),
    )


def gru_price(rows: int, N: int, reset_after: bool) -> Cost:
    """The price of the GRU cell: three sums, two sigmoids, a tanh, the reset, 1 - z, its two products and their sum.

    With `reset_after` the reset follows the matrix: the sum with b_n takes the place of the one with a_n.
    """
    n = rows * N
    matrix = () if reset_after else ("cumulation",)
    return Cost(
        mul=(1 + 1 + 2) * n,
        add=(3 + 2 + 2 + reset_after + 2) * n,
        div=3 * n,
        exp=3 * n,
        path=(
            *("addition", "exponentiation", "addition", "division", "multiplication", *matrix),
            *("addition", "exponentiation", "division", "multiplication", "addition"),
        ),
    )
