"""The running average as it is written, token by token, and its price, counted from it.

It is computed with only the two sums of the equation, so that counting its operations prices the equation. So no
maximum stabilizes the exponentials, and keys must stay below the logarithm of the largest number (709 in float64). What
depends on weights alone is computed at each token, so that a step costs what its token costs in a sequence. The price
is the same at every token but the first, before which there are no sums.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Span
from seqloom.core.graphs import is_transformed
from seqloom.ops.wkv_average.averages import state_after


def wkv(
    k: Tensor,
    v: Tensor,
    log_rate: Tensor | None,
    bonus: Tensor | None,
    state: Tensor | None,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """(B, T, D) and the state (B, 3, D) → the averages (B, T, D) and the state after `lengths` tokens or the last.

    The scale of that state is 0.
    """
    past = None if state is None else _sums(state)
    outputs, states = [], [torch.zeros_like(k[:, :1].expand(-1, 3, -1)) if state is None else state]
    for key, value in zip(k.unbind(1), v.unbind(1), strict=True):
        weight = torch.exp(key)
        product = weight * value
        own_weight = weight if bonus is None else torch.exp(bonus + key)
        own_product = product if bonus is None else own_weight * value
        sums = (own_product, own_weight) if past is None else (past[0] + own_product, past[1] + own_weight)
        outputs.append(sums[0] / sums[1])
        if past is None:
            past = product, weight
        elif log_rate is None and bonus is None:
            past = sums
        elif log_rate is None:
            past = past[0] + product, past[1] + weight
        else:
            decay = torch.exp(-torch.exp(log_rate))
            past = past[0] * decay + product, past[1] * decay + weight
        states.append(torch.stack([*past, torch.zeros_like(key)], 1))
    return torch.stack(outputs, 1), state_after(torch.stack(states, 1), lengths)


def _sums(state: Tensor) -> tuple[Tensor, Tensor] | None:
    """The numerator and the denominator of a state, rescaled to scale 0; None before the first token."""
    numerator, denominator, scale = state.unbind(1)
    if not (
        state.requires_grad or is_transformed()
    ):  # an empty state and one at scale 0 need no product, which would be counted
        if not bool((denominator > 0).any()):
            return None
        if bool(((scale == 0) | (denominator == 0)).all()):
            return numerator, denominator
    return numerator * torch.exp(scale), denominator * torch.exp(scale)


def price(span: Span, dim: int, forgets: bool) -> Cost:
    """The price for `dim` channels; `forgets`: with rate and bonus, which are computed at every token, as in a step."""
    n, past = span.rows * dim, (span.rows - span.first) * dim
    if not forgets:
        return Cost(
            mul=n, add=2 * past, div=n, exp=n, path=("exponentiation", "multiplication", "cumulation", "division")
        )
    return Cost(
        mul=2 * (n + past),
        add=n + 4 * past,
        div=n,
        exp=2 * (n + past),
        other=past,
        path=("addition", "exponentiation", "multiplication", "cumulation", "division"),
    )
