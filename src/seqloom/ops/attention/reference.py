"""The reference of attention: query by query, over the visible keys, in any dtype; slow.

It computes only the terms of the equation, so that counting its operations prices the equation. So no maximum is
subtracted to stabilize the exponentials, and scores must stay below the logarithm of the largest number (709 in
float64).
"""

from collections.abc import Callable

import torch
from torch import Tensor

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
