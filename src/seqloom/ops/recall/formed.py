"""Computes all products at once, and the weights of all old keys, which are 0 for keys that are not read."""

import torch
from torch import Tensor

from seqloom.ops.bucketing.choices import chosen

AT_ONCE = 1 << 22
"""scores that are formed at once"""


def recall(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    """See `recall` of the package; `seen` (B or 1, 1, T, N) is True at old keys."""
    tile = max(1, AT_ONCE // max(q.shape[0] * q.shape[1] * k.shape[2], 1))
    if tile >= q.shape[2] or torch.compiler.is_compiling():
        return _tile(q, k, v, seen, count)
    tiles = zip(q.split(tile, 2), seen.split(tile, 2), strict=True)
    return torch.cat([_tile(some, k, v, of_some, count) for some, of_some in tiles], 2)


def _tile(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    scores = q @ k.mT
    largest = chosen(lambda: scores.masked_fill(~seen, -torch.inf).topk(min(count, k.shape[2])).indices)
    real = seen.expand_as(scores).gather(3, largest)
    best = scores.gather(3, largest) / k.shape[3] ** 0.5
    a = torch.where(real, best, -torch.inf).softmax(3)
    a = torch.where(real, a, 0.0)  # a query without old keys reads nothing
    return torch.zeros_like(scores).scatter(3, largest, a) @ v
