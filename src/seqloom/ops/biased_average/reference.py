"""The biased average as it is written, query by query, and its price, counted from it; slow.

It is computed in any dtype, without dropped tokens, and with only the terms of the equation, so that counting its
operations prices the equation: a query adds up its window, and with each query one token leaves the window and is added
to the sum beyond it. No maximum stabilizes the exponentials, so keys must stay below the logarithm of the largest
number (709 in float64), and its totals have peak 0.
"""

import math

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Span
from seqloom.ops.biased_average.total import Past, Total

Sums = tuple[Tensor, Tensor]
"""numerators (D,) and denominators (K,)"""


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None) -> Tensor:
    """The reference of `seqloom.ops.biased_average.average`, with the same arguments."""
    rows = []
    for b in range(len(k)):
        keys, values = k[b], v[b]
        if past is not None:
            real = _real(past[0][b])
            keys, values = torch.cat([past[0][b][real], keys]), torch.cat([past[1][b][real], values])
        older = None if total is None else _unscale_row(total, b)
        rows.append(_row(keys, values, bias[min(b, len(bias) - 1)], k.shape[1], older))
    return torch.stack(rows)


def add_tokens(total: Total, k: Tensor, v: Tensor) -> Total:
    """See `seqloom.ops.biased_average.add_tokens`."""
    rows, K = [], k.shape[2]
    for b in range(len(k)):
        sums_of_row = _unscale_row(total, b)
        for j in _real(k[b]).nonzero()[:, 0].tolist():
            sums_of_row = _add_token(sums_of_row, k[b, j], v[b, j])
        if sums_of_row is None:
            rows.append(total.sums[b])
        else:
            rows.append(torch.cat([sums_of_row[0].unflatten(0, (K, -1)), sums_of_row[1][:, None]], 1))
    sums = torch.stack(rows)
    return Total(sums, torch.zeros_like(total.peak))


def _row(keys: Tensor, values: Tensor, bias: Tensor, T: int, older: Sums | None) -> Tensor:
    """The averages (T, D) at the last T of one row's tokens; `older` are the sums over tokens before the first."""
    outputs = []
    window_start = 0
    for t in range(T):
        b = bias[min(t, len(bias) - 1)]
        n = len(keys) - T + t + 1
        first = max(0, n - len(b))
        for j in range(window_start, first):
            older = _add_token(older, keys[j], values[j])
        window_start = first
        e = torch.exp(keys[first:n] + b[: n - first].flip(0))
        num, den = (_per_channel(e, values) * values[first:n]).sum(0), e.sum(0)
        if older is not None:
            num, den = num + older[0], den + older[1]
        outputs.append(num / _per_channel(den, values))
    return torch.stack(outputs)


def _add_token(sums: Sums | None, key: Tensor, value: Tensor) -> Sums:
    """The sums with one more token, whose key is (K,) and value (D,)."""
    e = torch.exp(key)
    num, den = _per_channel(e, value) * value, e
    return (num, den) if sums is None else (sums[0] + num, sums[1] + den)


def _unscale_row(total: Total, b: int) -> Sums | None:
    """The numerators and denominators of row b of a total, times e^peak; None for an empty total."""
    sums, peak = total.sums[b], total.peak[b]
    if not bool((sums[:, -1] > 0).any()):
        return None
    if bool((peak != 0).any()):  # only states that another backend wrote have a peak
        sums = sums * peak.exp()[:, None]
    return sums[:, :-1].flatten(), sums[:, -1]


def _real(keys: Tensor) -> Tensor:
    """Which keys (N, K) are those of tokens: the others are -inf."""
    return (keys > -math.inf).all(-1)


def _per_channel(e: Tensor, values: Tensor) -> Tensor:
    """Weights of keys (…, K) repeated for the channels of values: (…, D)."""
    return e.repeat_interleave(values.shape[-1] // e.shape[-1], -1)


def price(span: Span, window: int | None, keys: int, dim: int) -> Cost:
    """The price of the reference with `keys` keys for `dim` channels, where the biases reach back `window` tokens."""
    rows, terms = span.rows, span.terms(window)
    older = 0 if window is None else max(0, span.T - window)  # tokens that have left the window at the last token
    if span.per == "sequence":
        leaving = older
        first_leaving = min(older, 1)
    else:
        leaving = min(older, 1)
        first_leaving = int(older == 1)
    sums = dim + keys  # numerators and denominators
    # a token that leaves is added to the older sum, except for the first one, which starts it; the older sum is added
    # to that of the window
    older_sums = (2 * leaving - first_leaving) * sums
    return Cost(
        mul=(terms + leaving) * dim,
        add=terms * keys + (terms - rows) * sums + older_sums,
        div=rows * dim,
        exp=(terms + leaving) * keys,
        path=("addition", "exponentiation", "multiplication", "cumulation", "division"),
    )


def factors_price(terms: int, width: int) -> Cost:
    """The price of `terms` biases u · r of this width; 0 for a table of biases, whose width is 0."""
    return Cost(mul=terms * width, add=terms * (width - 1)) if width else Cost()


def standard_price(rows: int, window: int, heads: int) -> Cost:
    """The price of normalizing the biases of each head for `rows` tokens, then scaling and shifting them by γ and β.

    Counted are the mean, the differences, their mean square, the addition of 1e-5, the root and the division.
    """
    per_head = rows * heads
    add = 2 * (window - 1) + window + 1 + window
    return Cost(mul=per_head * 2 * window, add=per_head * add, div=per_head * (2 + window), other=per_head)
