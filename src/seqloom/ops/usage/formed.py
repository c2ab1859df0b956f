"""Computes the weights of a block of queries at a time, and sums them."""

from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.ops.attention.scores import Scores

PatternLike = Callable[[Tensor, Tensor], Tensor]
AT_ONCE = 1 << 22
"""scores that are formed at once"""


def usage(q: Tensor, k: Tensor, query_time: Tensor, key_time: Tensor, pattern: PatternLike, scores: Scores) -> Tensor:
    """See `usage` of the package."""
    tile = max(1, AT_ONCE // max(q.shape[0] * q.shape[1] * k.shape[2], 1))
    if tile >= q.shape[2] or torch.compiler.is_compiling():
        return _tile(q, k, query_time, key_time, pattern, scores)
    tiles = zip(q.split(tile, 2), query_time.split(tile, 1), strict=True)
    return torch.stack([_tile(some, k, now, key_time, pattern, scores) for some, now in tiles]).sum(0)


def _tile(q: Tensor, k: Tensor, query_time: Tensor, key_time: Tensor, pattern: PatternLike, scores: Scores) -> Tensor:
    i, j = query_time[:, None, :, None], key_time[:, None, None, :]
    seen = pattern(i, j) & (j >= 0) & (i >= 0)
    z = scores.of(q, k, i, j).masked_fill(~seen, -torch.inf)
    a = torch.where(seen, z.masked_fill(~seen.any(-1, keepdim=True), 0.0).softmax(-1), 0.0)
    return a.mean(1).sum(1)
