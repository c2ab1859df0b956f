"""The plan of a pattern over T tokens: the tiles that it computes, with a mask for each tile.

A plan depends on the pattern and the length alone, so it is computed once and cached.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.attention.patterns import Pattern
from seqloom.ops.attention.tiles import Tiles

COUNTED = 1 << 20
"""the most tokens whose pairs are counted, where no formula has them"""
EVALUATED = 1 << 22
"""pairs of query and key whose predicate is evaluated at a time"""


@final
@dataclass(frozen=True, eq=False)
class Part:
    """The tiles of one part of a pattern, without tiles that have no visible pair. Two parts are never equal."""

    queries: Tensor
    """(N, b): the times of N blocks of queries, -1 where a block has fewer"""
    keys: Tensor
    """(M, c): the times of M blocks of keys, -1 where a block has fewer"""
    blocks: Tensor
    """(N, m): the blocks of keys that each block of queries attends to, -1 after the last"""
    masks: Tensor
    """(N, m): the index in `table` of each tile's mask"""
    table: Tensor
    """(U, b, c): the different masks, True where a query attends to a key"""
    pairs: int
    """the number of visible pairs"""


@lru_cache(maxsize=64)
def plan(pattern: Pattern, T: int) -> tuple[Part, ...]:
    """The parts of a pattern over T tokens."""
    with torch.no_grad():
        parts = [_part(tiles) for tiles in pattern.tiles(T)]
        return tuple(part for part in parts if part.pairs) or (parts[0],)


@lru_cache(maxsize=64)
def terms(pattern: Pattern, T: int) -> tuple[int, int]:
    """(queries that see any key, visible pairs) of a pattern over T tokens."""
    seeing, pairs = pattern.seeing(T, max(T, 1)), pattern.pairs(T, max(T, 1))
    if seeing is not None and pairs is not None:
        return seeing, pairs
    if T > COUNTED:
        raise ValueError(f"the pairs of {T:,} tokens would be counted one by one: choose at most {COUNTED:,} tokens")
    has_keys = torch.zeros(T + 1, dtype=torch.bool)  # the last entry is that of empty slots, whose time is -1
    parts = plan(pattern.of(T), T) if T else ()
    for part in parts:
        sees_a_key = (part.table.any(-1)[part.masks] & (part.blocks >= 0)[:, :, None]).any(1)
        has_keys[torch.where(sees_a_key, part.queries, -1)] = True
    return int(has_keys[:T].sum()), sum(part.pairs for part in parts)


def keys(pattern: Pattern, t: int) -> int:
    """How many keys the query at time t attends to, among those up to t."""
    seen = pattern.count_seen(t, t + 1)
    if seen is not None:
        return seen
    if t >= COUNTED and not (pattern.reach or t) < COUNTED:
        raise ValueError(f"the keys of token {t + 1:,} would be counted one by one: choose at most {COUNTED:,} tokens")
    return len(pattern.keys(t))


def _part(tiles: Tiles) -> Part:
    """Evaluates the predicate on all pairs of the tiles, drops tiles without a visible pair, and finds equal masks."""
    (N, m), b, c = tiles.blocks.shape, tiles.queries.shape[1], tiles.keys.shape[1]
    rows = max(1, EVALUATED // max(1, b * c * m))  # blocks of queries at a time
    pair_counts, mask_words = [], []
    for first in range(0, N, rows):
        visible = _visible(tiles, slice(first, first + rows))
        pair_counts.append(visible.sum((2, 3)))
        mask_words.append(pad(visible.flatten(2), (0, -b * c % 8)).view(torch.long))  # 8 flags per word
    counts, words = torch.cat(pair_counts), torch.cat(mask_words)
    table, masks = torch.unique(words.flatten(0, 1), dim=0, return_inverse=True)
    largest_count = int((counts > 0).sum(1).max())
    without_pairs = (counts == 0).to(torch.int8)
    order = torch.argsort(without_pairs, dim=1, stable=True)[:, :largest_count]  # tiles with visible pairs first
    blocks = torch.where(counts > 0, tiles.blocks, -1).gather(1, order)
    return Part(
        tiles.queries,
        tiles.keys,
        blocks,
        masks.view(N, m).gather(1, order),
        table.view(torch.bool)[:, : b * c].unflatten(1, (b, c)),
        int(counts.sum()),
    )


def _visible(tiles: Tiles, rows: slice) -> Tensor:
    """(n, m, b, c): which pairs of these blocks of queries are visible."""
    i, blocks = tiles.queries[rows][:, None, :, None], tiles.blocks[rows]
    j = tiles.keys[blocks.clamp(min=0)][:, :, None, :]
    not_empty = (blocks >= 0)[:, :, None, None] & (i >= 0) & (j >= 0)
    return tiles.visible(i, j) & not_empty
