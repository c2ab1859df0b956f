"""The reference of diagonal systems: token by token, with the products and sums of the equation and nothing else.

Counting its operations prices the equation. What depends on weights alone is computed at each token, so that a step
has the same price as a token of a sequence.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def respond(
    u: Tensor,
    rates: Tensor,
    weights: Tensor,
    state: Tensor,
    lengths: Tensor | None,
    again: Callable[[], tuple[Tensor, Tensor]] | None = None,
) -> tuple[Tensor, Tensor]:
    """The outputs (B, T, D), and the state (B, D, N) after `lengths` tokens, or after the last one for None.

    `again()` returns rates and weights, and is called at every token from the second on.
    """
    h, outputs, states = state, [], [state]
    for t, token in enumerate(u.unbind(1)):
        if t and again:
            rates, weights = again()
        h = torch.exp(rates) * h + token[:, :, None]
        outputs.append(2 * (weights.real * h.real - weights.imag * h.imag).sum(-1))
        states.append(h)
    if lengths is None:
        return torch.stack(outputs, 1), h
    return torch.stack(outputs, 1), torch.stack(states, 1)[torch.arange(len(u), device=u.device), lengths]
