"""The equation as it is written, token by token, and its price, counted from it; slow.

The price has the summary of every region, and for every token its direct tokens and its regions.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from seqloom.core.cost import Cost


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
    first_direct = i // block * block
    direct = list(range(first_direct, i + 1))
    if form == "fixed":
        return direct, [tuple(range(first, first + block)) for first in range(0, first_direct, block)]
    return direct, [tuple(range(column, first_direct, block)) for column in range(block)] if first_direct else []


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
    """The average (V,) of values (N, V) by the softmax of the scores of one query (K,) with keys (N, K)."""
    return (k @ q / q.shape[0] ** 0.5).softmax(0) @ v


def price(form: str, block: int, tokens: Iterable[int], dim: int, heads: int) -> Cost:
    """The price of tokens at these positions, over all heads; a region counts with the first token that reads it."""
    K = dim // heads
    terms = 0  # keys that are read, by tokens and by regions
    rows = 0  # averages: one for each token and each region
    comparisons = 0  # for the largest query and key of each region
    for i in tokens:
        terms += _terms(form, block, i)
        rows += 1
        for size in _new_regions(form, block, i):
            terms += size
            rows += 1
            comparisons += 2 * (size - 1) * K
    pairs = heads * terms
    return Cost(
        mul=2 * pairs * K,
        add=pairs * (K - 1) + (pairs - heads * rows) * (1 + K),
        div=2 * pairs,
        exp=pairs,
        other=heads * comparisons,
        path=(
            *("other", "multiplication", "cumulation", "division", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation", "multiplication", "cumulation", "division", "exponentiation"),
            *("cumulation", "division", "multiplication", "cumulation"),
        ),
    )


def _terms(form: str, block: int, i: int) -> int:
    """The number of direct tokens and regions of token i."""
    if form == "logsparse":
        return 1 + i.bit_count()
    direct, earlier_blocks = i % block + 1, i // block
    return direct + (earlier_blocks if form == "fixed" else block * (earlier_blocks > 0))


def _new_regions(form: str, block: int, i: int) -> list[int]:
    """The sizes of the regions that token i is the first to read."""
    if i == 0 or (form != "logsparse" and i % block):
        return []
    if form == "logsparse":
        return [i & -i]
    return [block] if form == "fixed" else [i // block] * block
