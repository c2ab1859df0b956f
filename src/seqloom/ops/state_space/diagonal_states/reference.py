"""Diagonal systems as they are written, token by token, and their price, counted from them.

They are computed with the products and sums of the equation and nothing else, so that counting their operations prices
the equation. What depends on weights alone is computed at each token, so that a step has the same price as a token of a
sequence. The price of the discretization is counted too.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def respond(
    u: Tensor,
    rates: Tensor,
    weights: Tensor,
    state: Tensor,
    lengths: Tensor | None,
    system: Callable[[], tuple[Tensor, Tensor]] | None = None,
) -> tuple[Tensor, Tensor]:
    """The outputs (B, T, D), and the state (B, D, N) after `lengths` tokens, or after the last one for None.

    `system()` returns rates and weights, and is called at every token from the second on.
    """
    h, outputs, states = state, [], [state]
    for t, token in enumerate(u.unbind(1)):
        if t and system:
            rates, weights = system()
        h = torch.exp(rates) * h + token[:, :, None]
        outputs.append(2 * (weights.real * h.real - weights.imag * h.imag).sum(-1))
        states.append(h)
    if lengths is None:
        return torch.stack(outputs, 1), h
    return torch.stack(outputs, 1), torch.stack(states, 1)[torch.arange(len(u), device=u.device), lengths]


GROWTH = Cost(mul=10, add=5, div=3, exp=2, other=6)
"""(e^z - 1) / z of a complex number, as `seqloom.ops.state_space.discretise` computes it"""
EXPONENTIAL = Cost(mul=2, exp=1, other=2)
"""e^z of a complex number"""


def price(rows: int, dim: int, states: int, shared: bool) -> Cost:
    """The price of `rows` tokens of `dim` channels with `states` complex states: λ̄ = e^Δλ, λ̄ h + u, and 2 Re Σ w h.

    If `shared`, all channels have the same λ̄, which are computed once.
    """
    decay = rows * states * (1 if shared else dim) * EXPONENTIAL
    return decay + Cost(
        mul=rows * dim * (6 * states + 1),
        add=rows * dim * (4 * states + states - 1),
        path=("exponentiation", "multiplication", "addition", "addition", "multiplication", "cumulation"),
    )
