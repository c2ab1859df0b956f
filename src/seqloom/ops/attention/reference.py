"""Attention as it is written, query by query over the visible keys, and its price, counted from it; slow.

It is computed in any dtype, and with only the terms of the equation, so that counting its operations prices the
equation: scores, their softmax, and the sum of the values. So no maximum is subtracted to stabilize the exponentials,
and scores must stay below the logarithm of the largest number (709 in float64).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Step
from seqloom.ops.attention.fast import of_queries, times
from seqloom.ops.attention.scores import Scores

PatternLike = Callable[[Tensor, Tensor], Tensor]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: PatternLike,
    query_time: Tensor | None,
    key_time: Tensor | None,
    scores: Scores,
) -> Tensor:
    """The equation of `seqloom.ops.attention`, one row and one query at a time; shapes as in `attend` there."""
    k, v = of_queries(q, k), of_queries(q, v)
    i, j = (times(*pair).expand(len(q), -1) for pair in ((q, query_time), (k, key_time)))
    rows = [
        [_query(q[b], k[b], v[b], i[b], j[b], position, pattern, scores) for position in range(q.shape[2])]
        for b in range(len(q))
    ]
    return torch.stack([torch.stack(row, 1) for row in rows])


def _query(
    q: Tensor, k: Tensor, v: Tensor, i: Tensor, j: Tensor, position: int, pattern: PatternLike, scores: Scores
) -> Tensor:
    """The output (H, V) of the query at one position, over one row's keys and values (H, Tk, ·) at times j (Tk,)."""
    now = i[position].view(1, 1)
    visible = (pattern(now, j[None, :]) & (j[None, :] >= 0))[0]
    if not bool(visible.any()):
        return v.new_zeros(v.shape[0], v.shape[2])
    then = j[visible][None, :]
    # (H, 1, visible keys)
    z = scores.of(q[None, :, position, None], k[None, :, visible], now[None, None], then[None, None])[0]
    e = torch.exp(z)
    total = e.sum(-1, keepdim=True)
    if scores.sinks is not None:
        total = total + torch.exp(scores.sinks)[:, None, None]
    a = e / total
    y = torch.bmm(a, v[:, visible])
    if scores.value_change is not None:
        y = y + scores.value_change(a[None], now[None, None], then[None, None])[0]
    return y[:, 0]


def price(
    rows: int,
    terms: int,
    dim: int,
    heads: int,
    *,
    scale: float | None = None,
    softcap: bool = False,
    bias: bool = False,
    sinks: bool = False,
) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head; other arguments as in `Scores`.

    Tables 3 and 5 of the Extractor paper; docs/errata.md corrects 5. tanh x is (1 - e^-2x) / (1 + e^-2x).
    """
    K, scores = dim // heads, heads * terms
    scale_steps: tuple[Step, ...] = ("multiplication",)
    if scale is None:
        scale_steps = ("division",)
    elif scale == 1:
        scale_steps = ()
    cap_steps: tuple[Step, ...] = (
        ("division", "multiplication", "exponentiation", "addition", "division", "multiplication") if softcap else ()
    )
    products = terms * (K - 1)
    values = (terms - rows) * K
    sums = terms - rows + sinks * rows
    return Cost(
        mul=2 * terms * dim + scores * (scale_steps + cap_steps).count("multiplication"),
        add=heads * (products + values + sums) + scores * (bias + 2 * softcap),
        div=scores + scores * (scale_steps + cap_steps).count("division"),
        exp=scores * (1 + softcap) + sinks * heads * rows,
        path=(
            *("multiplication", "cumulation", *scale_steps, *cap_steps, *(("addition",) if bias else ())),
            *("exponentiation", "cumulation", *(("addition",) if sinks else ()), "division"),
            *("multiplication", "cumulation"),
        ),
    )


def decay_price(rows: int, width: int, heads: int) -> Cost:
    """The price of `rows` queries and keys that decay with distance, over all `heads`: a factor per channel.

    Each key counts as multiplied once, as in the equation, although each step multiplies the cached keys again.
    """
    path: tuple[Step, ...] = ("multiplication", "exponentiation", "multiplication")
    return Cost(mul=rows * width * (2 + heads), exp=2 * rows * width, path=path)
