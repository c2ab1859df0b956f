"""Attention as it is written: query by query, over no key that the pattern hides. For any dtype; slow.

It computes only the terms that the equation has, so that counting its operations prices the equation; for the same
reason the maximum that would stabilise the exponentials is left out, and scores must stay below log of the largest
number (709 in float64).
"""

import math

import torch
from torch import Tensor

from seqloom.ops.attention.fast import PatternLike, ScoreLike, of_queries, times


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: PatternLike,
    score_change: ScoreLike | None,
    value_change: ScoreLike | None,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """The equation of `seqloom.ops.attention`, one row and one query at a time; shapes as in `attend` there."""
    k, v = of_queries(q, k), of_queries(q, v)
    i, j = (times(*each).expand(len(q), -1) for each in ((q, query_time), (k, key_time)))
    rows = [
        [
            _query(q[b], k[b], v[b], i[b], j[b], place, pattern, score_change, value_change)
            for place in range(q.shape[2])
        ]
        for b in range(len(q))
    ]
    return torch.stack([torch.stack(row, 1) for row in rows])


def _query(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    i: Tensor,
    j: Tensor,
    place: int,
    pattern: PatternLike,
    score_change: ScoreLike | None,
    value_change: ScoreLike | None,
) -> Tensor:
    now = i[place].view(1, 1)
    seen = (pattern(now, j[None, :]) & (j[None, :] >= 0))[0]
    if not bool(seen.any()):
        return v.new_zeros(v.shape[0], v.shape[2])
    then = j[seen][None, :]
    z = torch.bmm(q[:, place, None, :], k[:, seen].mT) / math.sqrt(q.shape[-1])  # (H, 1, seen)
    if score_change:
        z = score_change(z[None], now[None], then[None])[0]
    e = torch.exp(z)
    a = e / e.sum(-1, keepdim=True)
    y = torch.bmm(a, v[:, seen])
    if value_change:
        y = y + value_change(a[None], now[None], then[None])[0]
    return y[:, 0]
