"""The reference: the equation, token by token; slow. The maximum that would stabilize exponentials is left out."""

import torch
from torch import Tensor


def combine(q: Tensor, k: Tensor, v: Tensor, form: str, block: int, first: int = 0) -> Tensor:
    """See `combine` of the package."""
    rows = [
        torch.stack([_head(q[b, h], k[b, h], v[b, h], form, block, first) for h in range(q.shape[1])])
        for b in range(len(q))
    ]
    return torch.stack(rows)


def partition(form: str, block: int, i: int) -> tuple[list[int], list[tuple[int, ...]]]:
    """The tokens that token i reads directly, and its regions."""
    if form == "logsparse":
        regions, start = [], 0
        for level in reversed(range(i.bit_length())):
            if i >> level & 1:
                regions.append(tuple(range(start, start + (1 << level))))
                start += 1 << level
        return [i], regions
    own = i // block * block
    direct = list(range(own, i + 1))
    if form == "fixed":
        return direct, [tuple(range(first, first + block)) for first in range(0, own, block)]
    return direct, [tuple(range(column, own, block)) for column in range(block)] if own else []


def _head(q: Tensor, k: Tensor, v: Tensor, form: str, block: int, first: int) -> Tensor:
    """One head of one row: (T, K), (T, K), (T, V) → (T - first, V)."""
    summaries: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
    outputs = []
    for i in range(first, len(q)):
        direct, regions = partition(form, block, i)
        for region in regions:
            if region not in summaries:
                j = list(region)
                summaries[region] = k[j].amax(0), _averaged(q[j].amax(0), k[j], v[j])
        keys = torch.stack([*k[direct], *(summaries[region][0] for region in regions)])
        values = torch.stack([*v[direct], *(summaries[region][1] for region in regions)])
        outputs.append(_averaged(q[i], keys, values))
    return torch.stack(outputs)


def _averaged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The values (N, V) of keys (N, K) by their weights for one query (K,)."""
    return (k @ q / q.shape[0] ** 0.5).softmax(0) @ v
