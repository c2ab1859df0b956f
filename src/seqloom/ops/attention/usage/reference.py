"""The equation as it is written, query by query over the visible keys, and its price, counted from it; slow.

As in the reference of `attention`, no maximum stabilizes the exponentials. The price has the scores and their softmax,
and the sum of each key.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.ops.attention.scores import Scores

PatternLike = Callable[[Tensor, Tensor], Tensor]


def usage(q: Tensor, k: Tensor, query_time: Tensor, key_time: Tensor, pattern: PatternLike, scores: Scores) -> Tensor:
    """See `usage` of the package."""
    return torch.stack([_row(*row, pattern, scores) for row in zip(q, k, query_time, key_time, strict=True)])


def _row(q: Tensor, k: Tensor, i: Tensor, j: Tensor, pattern: PatternLike, scores: Scores) -> Tensor:
    """The attention (N,) that the keys of one row receive: q (H, T, K) and k (H, N, K) at times i (T,) and j (N,)."""
    received = q.new_zeros(len(j))
    for position, now in enumerate(i):
        seen = (pattern(now, j) & (j >= 0) & (now >= 0)).nonzero()[:, 0]
        if len(seen) == 0:
            continue
        query, time = q[None, :, position, None], now.view(1, 1, 1, 1)
        z = scores.of(query, k[None, :, seen], time, j[seen].view(1, 1, 1, -1))[0, :, 0]  # (H, seen)
        e = torch.exp(z)
        a = e / e.sum(1, keepdim=True)
        received = received.index_add(0, seen, a.mean(0))
    return received


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, with the mean over heads."""
    K, scores = dim // heads, heads * terms
    return Cost(
        mul=terms * dim,
        add=scores * (K - 1) + scores - heads * rows + scores,
        div=2 * scores + terms,
        exp=scores,
        path=(
            *("multiplication", "cumulation", "division", "exponentiation", "cumulation", "division"),
            *("cumulation", "division", "cumulation"),
        ),
    )
