"""The equation as it is written, token by token, which is slow, and its price.

The price has the summary of every region, and for every token its direct tokens and its regions.
"""

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
                summaries[region] = k[j].amax(0), _average_values(q[j].amax(0), k[j], v[j])
        keys = torch.stack([*k[direct], *(summaries[region][0] for region in regions)])
        values = torch.stack([*v[direct], *(summaries[region][1] for region in regions)])
        outputs.append(_average_values(q[i], keys, values))
    return torch.stack(outputs)


def _average_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The average (V,) of values (N, V) by the softmax of the scores of one query (K,) with keys (N, K)."""
    return (k @ q / q.shape[0] ** 0.5).softmax(0) @ v


def price(form: str, block: int, tokens: range, dim: int, heads: int) -> Cost:
    """The price of tokens at consecutive positions, over all heads; a region counts with the first token to read it."""
    K = dim // heads
    direct, regions, summarized = (
        after - before
        for before, after in zip(
            _totals(form, block, tokens.start), _totals(form, block, max(tokens.start, tokens.stop)), strict=True
        )
    )
    rows = len(tokens) + regions  # averages: one for each token and each region
    pairs = heads * (direct + summarized)  # keys that are read, by tokens and by regions
    comparisons = 2 * (summarized - regions) * K  # for the largest query and key of each region
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


def _totals(form: str, block: int, n: int) -> tuple[int, int, int]:
    """Of the first n tokens: the direct tokens and regions that they read, and the regions with their tokens."""
    if form == "logsparse":
        levels = range(n.bit_length())
        ones = sum((n >> level + 1 << level) + max(0, n % (2 << level) - (1 << level)) for level in levels)
        starting = [(n - 1 >> level) - (n - 1 >> level + 1) for level in levels]  # i < n with lowest bit 2^level
        return n + ones, sum(starting), sum(count << level for level, count in zip(levels, starting, strict=True))
    blocks, left = divmod(n, block)
    direct = blocks * _triangle(block) + _triangle(left)
    ended = max(n - 1, 0) // block  # blocks that are a region, or part of regions, of a token among these
    if form == "fixed":
        return direct + block * _triangle(blocks - 1) + left * blocks, ended, ended * block
    return direct + block * max(0, n - block), ended * block, block * _triangle(ended)


def _triangle(n: int) -> int:
    """1 + 2 + … + n."""
    return n * (n + 1) // 2
