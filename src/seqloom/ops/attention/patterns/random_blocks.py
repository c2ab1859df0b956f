"""Blocks that attend to neighboring, global and random blocks."""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.patterns.pattern import Pattern
from seqloom.ops.attention.patterns.sums import count_band, sum_clipped
from seqloom.ops.attention.tiles import Tiles, list_columns, pad_blocks

DRAWN = 1 << 24
"""the most blocks whose random blocks are drawn to count their pairs, a few seconds"""
LONGEST = 1 << 30
"""the most tokens whose pairs are counted in 64 bits"""
AT_ONCE = 1 << 18
"""blocks that are counted at a time"""


@final
@dataclass(frozen=True)
class RandomBlocks(Pattern):
    """Big Bird: blocks of `size` tokens attend to those up to `half` away, to `random` others, and to the global ones.

    Global blocks are the first `first` and the last `last` blocks: all blocks attend to them, and they attend to all.
    The remaining blocks are divided into `random` equal shares, and one block of each share is drawn uniformly by
    `seed` and the number of the query's block.
    """

    size: int
    half: int
    random: int
    first: int
    last: int
    seed: int
    causal: bool = True
    length: Tensor | int = 0

    @property
    @override
    def depends_on_length(self) -> bool:
        return not self.causal

    @override
    def of(self, length: Tensor | int) -> "RandomBlocks":
        return self if self.causal else replace(self, length=length)

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        row, column = i // self.size, j // self.size
        visible = self.near_or_global(row, column)
        for chosen in self.draw_blocks(row):
            visible = visible | (column == chosen)
        return visible & ((j <= i) if self.causal else (j < self.length))

    def near_or_global(self, row: Tensor, column: Tensor) -> Tensor:
        """Whether two blocks see each other by the window, or because one of them is global."""
        visible = ((row - column).abs() <= self.half) | (column < self.first) | (row < self.first)
        if not self.causal and self.last:
            end = -(-self.length // self.size) - self.last
            visible = visible | (column >= end) | (row >= end)
        return visible

    def draw_blocks(self, row: Tensor) -> list[Tensor]:
        """The random key blocks of each query block in `row`, one tensor for each share; -1 where a share is empty.

        Blocks are drawn from those between the global ones; the `window` blocks near the row are skipped.
        """
        low = (row - self.half).clamp(min=self.first)
        window = torch.zeros_like(row)
        if self.causal:
            count = low - self.first
        else:
            end = -(-self.length // self.size) - self.last
            end = end.to(row.device) if isinstance(end, Tensor) else end
            window = ((row + self.half + 1).clamp(max=end) - low).clamp(min=0)
            count = (end - self.first - window).clamp(min=0)
        blocks = []
        for number in range(self.random):
            share_start = (count * number) // self.random
            share = (count * (number + 1)) // self.random - share_start
            block = self.first + share_start + (_hash_numbers(row, number, self.seed) * share >> 31)
            block = torch.where(block >= low, block + window, block)
            blocks.append(torch.where(share > 0, block, -1))
        return blocks

    @override
    def tiles(self, T: int) -> list[Tiles]:
        bound = replace(self, length=T)
        times = pad_blocks(torch.arange(T), self.size)
        n = len(times)
        row, column = torch.arange(n)[:, None], torch.arange(n)[None]
        visible = bound.near_or_global(row, column)
        for chosen in bound.draw_blocks(row):
            visible = visible | (column == chosen)
        if self.causal:
            visible = visible & (column <= row)
        return [Tiles(times, times, list_columns(visible), bound)]

    @override
    def keys(self, t: int) -> Tensor:
        row = t // self.size
        if row < self.first:
            return torch.arange(t + 1)
        drawn = torch.tensor([-1]) if not self.random else torch.stack(self.draw_blocks(torch.tensor(row)))
        neighbors = torch.arange(max(0, row - self.half), row + 1)
        blocks = torch.cat([torch.arange(self.first), neighbors, drawn[drawn >= 0]]).unique()
        then = (blocks[:, None] * self.size + torch.arange(self.size)).flatten()
        return then[then <= t]

    @override
    def pairs(self, T: int, within: int) -> int:
        """By a formula; where a context, or the end of the text, cuts the random blocks, counted block by block.

        ValueError for a text that has too many blocks to draw.
        """
        pairs = None
        if within >= T:
            pairs = self._causal_pairs(T) if self.causal else self._pairs(T)
        return self._drawn_pairs(T, within) if pairs is None else pairs

    @override
    def count_seen(self, t: int, within: int) -> int | None:
        if not self.causal:
            return None
        stretches = self._blocks_of_keys(torch.tensor([t // self.size]), t + 1)
        bounds = [(blocks * self.size).clamp(min=t + 1 - within, max=t + 1) for blocks in stretches]
        return sum(int(last - first) for first, last in bounds if last > first)

    @override
    def seeing(self, T: int, within: int) -> int:
        """All: each query attends to itself."""
        return T

    def _causal_pairs(self, T: int) -> int:
        """The pairs of a causal text: with the blocks before the query's block, and with its own up to itself."""
        rows, left = divmod(T, self.size)
        most = self.half + self.random  # a block sees that many of those after the global ones, as far as there are
        in_first, after = min(rows, self.first), max(0, rows - self.first)
        blocks = sum_clipped(in_first - 1, in_first) + after * self.first + sum_clipped(after - 1, most)
        of_last = rows if rows < self.first else self.first + min(rows - self.first, most)
        own = rows * sum_clipped(self.size, self.size) + sum_clipped(left, left)
        return self.size * (self.size * blocks + left * of_last) + own

    def _pairs(self, T: int) -> int | None:
        """The pairs of a bidirectional text; None where some of the random blocks are shorter."""
        n = -(-T // self.size)
        if self.first + self.last >= n:
            return T * T
        missing = n * self.size - T
        if missing and not self.last:
            return None
        M = n - self.first - self.last  # blocks that are not global; these see `seen` of themselves
        windows = (min(u + self.half + 1, M) - max(u - self.half, 0) for u in range(min(M, self.half)))
        edges = [min(M, window + self.random) for window in windows]
        if 2 * self.half < M:
            seen = 2 * sum(edges) + (M - 2 * self.half) * min(M, 2 * self.half + 1 + self.random)
        else:
            windows = (min(u + self.half + 1, M) - max(u - self.half, 0) for u in range(M))
            seen = sum(min(M, window + self.random) for window in windows)
        keys = self.size * ((self.first + self.last) * M + seen) - missing * M
        return (T - M * self.size) * T + self.size * keys

    def _drawn_pairs(self, T: int, within: int) -> int:
        """The pairs of T tokens that are less than `within` apart, from the blocks that each block draws."""
        blocks = -(-T // self.size)
        longest = min(DRAWN * self.size, LONGEST)
        if longest < T:
            raise ValueError(
                f"random blocks that a context of {within:,} cuts have no formula, and those of {T:,} tokens are too "
                f"many to draw: choose at most {longest:,} tokens, or no smaller context than the text"
            )
        ahead = 0 if self.causal else within - 1
        total = 0
        for low in range(0, blocks, AT_ONCE):
            row = torch.arange(low, min(low + AT_ONCE, blocks))
            start, stop = row * self.size, ((row + 1) * self.size).clamp(max=T)
            for keys in self._blocks_of_keys(row, T):
                first, last = (keys * self.size).clamp(max=T).unbind()
                total += int(count_band(start, stop, first, last, -within + 1, ahead).sum())
        return total

    def _blocks_of_keys(self, row: Tensor, T: int) -> list[Tensor]:
        """The first block (2, R) of keys that each query block in `row` (R,) attends to, and the one after the last.

        Stretches of blocks that have no block in common: the global ones, the window, and each random block.
        """
        n = -(-T // self.size)
        end = n if self.causal else max(n - self.last, self.first)
        is_global = (row < self.first) | (row >= end)
        nothing = torch.zeros_like(row)
        at_start = torch.where(is_global, n, self.first)
        at_end = torch.where(is_global, n, end)
        near = (row - self.half).clamp(min=self.first), (row + self.half + 1).clamp(max=end)
        drawn = [torch.where(is_global, -1, block) for block in replace(self, length=T).draw_blocks(row)]
        return [
            torch.stack([nothing, at_start]),
            torch.stack([at_end, torch.full_like(row, n)]),
            torch.stack([torch.where(is_global, 0, bound) for bound in near]),
            *(torch.stack([block.clamp(min=0), block + 1]) for block in drawn),
        ]


def _hash_numbers(row: Tensor, number: int, seed: int) -> Tensor:
    """Pseudorandom integers from 0 to 2³¹ - 1, a function of the arguments."""
    x = (row * 0x9E3779B1 + number * 0x85EBCA6B + (seed & 0xFFFFF) * 0xC2B2AE35 + 0x165667B1) & 0x7FFFFFFF
    for factor in (0x2C1B3C6D, 0x297A2D39):
        x = ((x ^ (x >> 15)) * factor) & 0x7FFFFFFF
    return x ^ (x >> 16)
