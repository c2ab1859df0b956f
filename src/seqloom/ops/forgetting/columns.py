"""Computes the sums as two more channels, by blocks of queries, with the kernels of `attention`."""

from typing import Any

import torch
from torch import Tensor

from seqloom.ops.attention import attend, banded
from seqloom.ops.attention.fast import times

BLOCK = 64
"""queries of a block; sums are counted from its first query, which keeps them small"""


def forgetting(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    past: Tensor | None,
    window: int | None,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """The backend `columns` of `seqloom.ops.forgetting.forgetting`, with the same arguments."""
    T, K = q.shape[2:]
    c = g.double().cumsum(-1)
    sums = -c if past is None else torch.cat([past.double(), -c], -1)
    i, j = times(q, query_time).expand(len(q), -1), times(k, key_time).expand(len(q), -1)
    parts = []
    for a in range(0, T, BLOCK):
        b = min(a + BLOCK, T)
        first = 0 if past is not None or window is None else max(0, a + 1 - window)
        keys = slice(first, k.shape[2] - T + b)
        origin = c[:, :, a, None]  # the first query's sum, which no later token changes
        of_keys, of_queries = sums[:, :, keys] + origin, c[:, :, a:b] - origin
        root = torch.full_like(q[:, :, a:b, :1], K**0.5)
        given: dict[str, Any] = {"query_time": i[:, a:b], "key_time": j[:, keys], "scale": K**-0.5}
        wide_q = torch.cat([q[:, :, a:b], root, root * of_queries[..., None].to(q.dtype)], -1)
        column = of_keys[..., None].to(k.dtype)
        wide_k = torch.cat([k[:, :, keys], column, torch.ones_like(column)], -1)
        parts.append(attend(wide_q, wide_k, v[:, :, keys], pattern=banded(window), **given))
    return torch.cat(parts, 2)
