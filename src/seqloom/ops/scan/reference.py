"""The recurrence as it is written, token by token, and its price, counted from it: a product and a sum per number."""

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def scan(a: Tensor, b: Tensor, state: Tensor | None) -> Tensor:
    """a (N,) or (B, T, N), b (B, T, N), state (B, N) → every h (B, T, N)."""
    h, states = state, []
    for t, b_t in enumerate(b.unbind(1)):
        h = b_t if h is None else (a if a.ndim == 1 else a[:, t]) * h + b_t
        states.append(h)
    return torch.stack(states, 1)


def price(numbers: int, is_complex: bool) -> Cost:
    """The price for `numbers` numbers; a complex product is four products and two sums, a complex sum two sums."""
    product = 4 if is_complex else 1
    return Cost(mul=product * numbers, add=product * numbers, path=("multiplication", "addition"))
