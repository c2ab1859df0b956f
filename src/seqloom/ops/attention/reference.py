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
    now = i[position].view(1, 1)
    seen = (pattern(now, j[None, :]) & (j[None, :] >= 0))[0]
    if not bool(seen.any()):
        return v.new_zeros(v.shape[0], v.shape[2])
    then = j[seen][None, :]
    z = scores.of(q[None, :, position, None], k[None, :, seen], now[None, None], then[None, None])[0]  # (H, 1, seen)
    e = torch.exp(z)
    total = e.sum(-1, keepdim=True)
    if scores.sinks is not None:
        total = total + torch.exp(scores.sinks)[:, None, None]
    a = e / total
    y = torch.bmm(a, v[:, seen])
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
    scaled: tuple[Step, ...] = ("division",) if scale is None else () if scale == 1 else ("multiplication",)
    capped: tuple[Step, ...] = (
        ("division", "multiplication", "exponentiation", "addition", "division", "multiplication") if softcap else ()
    )
    return Cost(
        mul=2 * terms * dim + scores * (scaled + capped).count("multiplication"),
        add=heads * (terms * (K - 1) + (terms - rows) * K + terms - rows + sinks * rows)
        + scores * (bias + 2 * softcap),
        div=scores + scores * (scaled + capped).count("division"),
        exp=scores * (1 + softcap) + sinks * heads * rows,
        path=(
            *("multiplication", "cumulation", *scaled, *capped, *(("addition",) if bias else ())),
            *("exponentiation", "cumulation", *(("addition",) if sinks else ()), "division"),
            *("multiplication", "cumulation"),
        ),
    )


def decay_price(rows: int, width: int, heads: int) -> Cost:
    """The price of `rows` queries and keys that decay with distance, over all `heads`: a factor per channel.

    A factor per key counts once; that a step multiplies the cached keys again is not part of the equation.
    """
    path: tuple[Step, ...] = ("multiplication", "exponentiation", "multiplication")
    return Cost(mul=rows * width * (2 + heads), exp=2 * rows * width, path=path)
