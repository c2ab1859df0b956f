"""Windows: neighboring keys, in the text or among every d-th token."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.patterns.pattern import Pattern, positive
from seqloom.ops.attention.patterns.sums import sum_clipped
from seqloom.ops.attention.tiles import Tiles, blocks_of, ranges, vectors


@final
@dataclass(frozen=True)
class Neighbors(Pattern):
    """Each query attends to the keys from `before` before the start of its block to `after` after the block's end.

    Blocks have `block` tokens; with 1 this is a window around the query. With `before` None it attends to all earlier
    keys and, if not causal, to all later ones.
    """

    before: int | None
    after: int = 0
    block: int = 1
    causal: bool = True

    @property
    @override
    def reach(self) -> int | None:
        return None if self.before is None else self.before + self.block

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        low, high = self._first_and_last_key(i)
        return (j >= low) & (j <= high)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        times = blocks_of(T, self.block)
        low, high = self._first_and_last_key(times.clamp(min=0))
        keys = vectors(torch.arange(T))
        size = keys.shape[1]
        first = torch.where(times < 0, T, low.clamp(min=0)).amin(1) // size
        last = torch.where(times < 0, 0, high.clamp(max=T - 1)).amax(1) // size
        return [Tiles(times, keys, ranges(first, last), self)]

    @override
    def keys(self, t: int) -> Tensor:
        low = 0 if self.before is None else t // self.block * self.block - self.before
        return torch.arange(max(0, low), t + 1)

    @override
    def pairs(self, T: int, within: int) -> int:
        return self._pairs_behind(T, within) + (0 if self.causal else self._pairs_ahead(T, within))

    @override
    def seeing(self, T: int, within: int) -> int:
        """All: each query attends to itself."""
        return T

    def _pairs_behind(self, T: int, within: int) -> int:
        """The pairs whose key is not after the query."""
        before = self.before
        if before is None:
            return sum_clipped(T, within)
        start = min(T, -(-before // self.block) * self.block)  # the queries before it see all keys behind them
        blocks, left = divmod(T - start, self.block)

        def of_first(queries: int) -> int:  # of the first queries of a block
            return sum_clipped(before + queries, within) - sum_clipped(before, within)

        return sum_clipped(start, within) + blocks * of_first(self.block) + of_first(left)

    def _pairs_ahead(self, T: int, within: int) -> int:
        """The pairs whose key is after the query."""
        if self.before is None:
            return sum_clipped(T - 1, within - 1)
        blocks = max(0, T - self.after) // self.block  # those whose keys end before the text does
        of_block = sum_clipped(self.after + self.block - 1, within - 1) - sum_clipped(self.after - 1, within - 1)
        return blocks * of_block + sum_clipped(T - blocks * self.block - 1, within - 1)

    def _first_and_last_key(self, i: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the last time that a query at time i attends to; may be outside of the text."""
        block_start = i // self.block * self.block
        low = torch.zeros_like(i) if self.before is None else block_start - self.before
        if self.causal:
            return low, i
        ahead = 1 << 40 if self.before is None else self.block - 1 + self.after
        return low, block_start + ahead


def local(window: int) -> Neighbors:
    """Each query attends to itself and to the `window` - 1 tokens before it."""
    return Neighbors(positive("window", window) - 1)


def around(radius: int) -> Neighbors:
    """Each query attends to the tokens up to `radius` away on both sides."""
    return Neighbors(radius, radius, causal=False)


def segment(length: int) -> Neighbors:
    """Each query attends to the tokens of its segment up to itself."""
    return Neighbors(0, block=positive("length", length))


def blocks_before(block: int, memory: int) -> Neighbors:
    """Image Transformer, 1-D: the query's block up to itself, and the `memory` tokens before the block."""
    return Neighbors(memory, block=positive("block", block))


@final
@dataclass(frozen=True)
class Dilated(Pattern):
    """A pattern over every `by`-th token: gaps of `by` - 1 tokens between keys."""

    inner: Pattern
    by: int
    least: int = 0
    """the shortest distance |i - j| of a visible pair"""

    @property
    @override
    def causal(self) -> bool:
        return self.inner.causal

    @property
    @override
    def reach(self) -> int | None:
        return None if self.inner.reach is None else (self.inner.reach - 1) * self.by + 1

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        visible = (i - j) % self.by == 0
        if self.least:
            visible = visible & ((i - j).abs() >= self.least)
        return visible & self.inner(i // self.by, j // self.by)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        tiles = []
        for part in self.inner.tiles(-(-T // self.by)):
            residues = torch.arange(self.by)[:, None, None]
            queries, keys = (_spread(times, residues, self.by, T) for times in (part.queries, part.keys))
            shifted = part.blocks + residues * len(part.keys)
            blocks = torch.where(part.blocks < 0, -1, shifted).flatten(0, 1)
            tiles.append(Tiles(queries, keys, blocks, self))
        return tiles

    @override
    def pairs(self, T: int, within: int) -> int | None:
        length, longer = divmod(T, self.by)  # `longer` of the `by` texts have a token more
        nearest, end = -(-self.least // self.by), -(-within // self.by)  # distances within such a text
        counts = [
            self.inner.pairs(tokens, limit) for tokens in (length + 1, length) for limit in (end, min(nearest, end))
        ]
        if None in counts:
            return None
        far_longer, near_longer, far, near = (count for count in counts if count is not None)
        return longer * (far_longer - near_longer) + (self.by - longer) * (far - near)

    @override
    def seeing(self, T: int, within: int) -> int | None:
        """All that see themselves; not counted for a `least` distance."""
        whole = not self.least and isinstance(self.inner, Neighbors)
        return T if whole else None

    @override
    def keys(self, t: int) -> Tensor:
        then = self.inner.keys(t // self.by) * self.by + t % self.by
        return then[t - then >= self.least]


def _spread(times: Tensor, residues: Tensor, by: int, T: int) -> Tensor:
    """Times (N, b) in a text of every `by`-th token as times in the text, once for each residue: (by N, b)."""
    spread = times * by + residues
    return torch.where((times >= 0) & (spread < T), spread, -1).flatten(0, 1)
