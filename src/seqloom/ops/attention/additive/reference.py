"""The equation as it is written, query by query, and its price, counted from it; slow.

The price is a tanh for each pair and channel, their sum, a softmax, and the sum of values.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def additive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    causal: bool,
    query_time: Tensor | None,
    key_time: Tensor | None,
    window: int | None,
) -> Tensor:
    """See `additive` of the package."""
    outputs = []
    for i in range(q.shape[2]):
        rows = []
        for b in range(len(q)):
            now = i if query_time is None else int(query_time[b, i])
            then = range(k.shape[2]) if key_time is None else key_time[b].tolist()
            keys = [n for n, j in enumerate(then) if j >= 0 and _is_visible(now, j, causal, window)]
            rows.append(_average_values(q[b, :, i], k[b][:, keys], v[b][:, keys], w))
        outputs.append(torch.stack(rows))
    return torch.stack(outputs, 2)


def _is_visible(i: int, j: int, causal: bool, window: int | None) -> bool:
    within = window is None or abs(i - j) < window
    return within and (j <= i or not causal)


def _average_values(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """One query (H, K) over keys and values (H, N, ·) that it sees."""
    if k.shape[1] == 0:
        return torch.zeros_like(v[:, :0].sum(1))
    scores = (torch.tanh(q[:, None] + k) @ w[:, :, None])[:, :, 0]
    return (scores.softmax(-1)[:, None] @ v)[:, 0]


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head. A tanh is (e^2x - 1) / (e^2x + 1)."""
    K = dim // heads
    pairs = heads * terms
    tanhs = terms * dim  # K for each pair
    scores = pairs * (K - 1)
    sums = pairs - heads * rows
    values = (terms - rows) * dim
    return Cost(
        mul=3 * tanhs,  # 2x in tanh, by w, by the values
        add=3 * tanhs + scores + sums + values,  # q + k; 2 in tanh
        div=tanhs + pairs,
        exp=tanhs + pairs,
        path=(
            *("addition", "multiplication", "exponentiation", "addition", "division"),
            *("multiplication", "cumulation", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )
