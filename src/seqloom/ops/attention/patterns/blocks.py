"""Patterns that cut the text into blocks: rectangles of a picture, and blocks that attend to other blocks."""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.patterns.pattern import Pattern
from seqloom.ops.attention.patterns.sums import band
from seqloom.ops.attention.tiles import Tiles, blocks_of, ranges, vectors


@final
@dataclass(frozen=True)
class Raster(Pattern):
    """Image Transformer, 2-D: a picture of `width` columns, read row by row, is cut into rectangles.

    A query attends to the pixels before it in its rectangle and in a halo of `above` rows and `side` columns around it.
    """

    width: int
    rows: int
    columns: int
    above: int
    side: int

    @property
    @override
    def reach(self) -> int:
        return (self.rows - 1 + self.above) * self.width + min(self.width, self.columns + self.side)

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        row, column = i // self.width, i % self.width
        top, left = row // self.rows * self.rows, column // self.columns * self.columns
        y, x = j // self.width, j % self.width
        in_halo = (y >= top - self.above) & (x >= left - self.side) & (x < left + self.columns + self.side)
        return in_halo & (j <= i)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        # the picture has `down` rows of `across` rectangles; axes: row and column of a rectangle, row and column in it
        picture_rows = -(-T // self.width)
        down = -(-picture_rows // self.rows)
        across = -(-self.width // self.columns)
        y = torch.arange(down)[:, None, None, None] * self.rows + torch.arange(self.rows)[:, None]
        x = torch.arange(across)[:, None, None] * self.columns + torch.arange(self.columns)
        times = y * self.width + x
        times = torch.where((x < self.width) & (times < T), times, -1).flatten(0, 1).flatten(1)
        # the rectangles that a halo touches: `up` above, `aside` on either side
        up = -(-self.above // self.rows)
        aside = -(-self.side // self.columns)
        row = torch.arange(down)[:, None, None, None] + torch.arange(-up, 1)[:, None]
        column = torch.arange(across)[:, None, None] + torch.arange(-aside, aside + 1)
        exists = (row >= 0) & (column >= 0) & (column < across)
        blocks = torch.where(exists, row * across + column, -1).flatten(0, 1).flatten(1)
        return [Tiles(times, times, blocks, self)]

    @override
    def keys(self, t: int) -> Tensor:
        row, column = t // self.width, t % self.width
        top, left = row // self.rows * self.rows, column // self.columns * self.columns
        y = torch.arange(max(0, top - self.above), row + 1)
        x = torch.arange(max(0, left - self.side), min(self.width, left + self.columns + self.side))
        then = (y[:, None] * self.width + x).flatten()
        return then[then <= t]

    @override
    def pairs(self, T: int, within: int) -> int | None:
        """Counted over one row of rectangles, which repeats; None for a text of few rows."""
        period = self.rows * self.width
        first = -(-self.above // self.rows) * period  # before it the halo ends at the top of the picture
        if first + 2 * period > T:
            return None
        repeats, rest = divmod(T - first, period)
        i = torch.arange(first + rest + period)[:, None]
        j = i - torch.arange(min(self.reach, within))
        counts = ((j >= 0) & self(i, j)).sum(1)
        return int(counts[: first + rest].sum()) + repeats * int(counts[first + rest :].sum())

    @override
    def seeing(self, T: int, within: int) -> int:
        """All: each query attends to itself."""
        return T


@final
@dataclass(frozen=True)
class Permuted(Pattern):
    """Blockwise: the text is cut into len(permutation) blocks; block r attends to block permutation[r]."""

    permutation: tuple[int, ...]
    length: Tensor | int = 0

    @property
    @override
    def causal(self) -> bool:
        return False

    @property
    @override
    def depends_on_length(self) -> bool:
        return True

    @override
    def of(self, length: Tensor | int) -> "Permuted":
        return replace(self, length=length)

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        n = len(self.permutation)
        size = -(-self.length // n)
        size = size.to(i.device).clamp(min=1) if isinstance(size, Tensor) else max(size, 1)
        block = (i // size).clamp(max=n - 1)
        target = torch.zeros_like(block)
        for number, other in enumerate(self.permutation):
            target = torch.where(block == number, other, target)
        return (j // size == target) & (j < self.length)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        bound = self.of(T)
        size = -(-T // len(self.permutation))
        queries, keys = blocks_of(T, size, joined=False), vectors(torch.arange(T))
        block = queries[:, 0] // size
        first = torch.tensor(self.permutation)[block] * size
        last = (first + size).clamp(max=T) - 1
        return [Tiles(queries, keys, ranges(first // keys.shape[1], last // keys.shape[1]), bound)]

    @override
    def pairs(self, T: int, within: int) -> int:
        return sum(band(queries, keys, within) for queries, keys in self._blocks(T))

    @override
    def seeing(self, T: int, within: int) -> int:
        return sum(
            len(range(max(queries.start, keys.start - within + 1), min(queries.stop, keys.stop + within - 1)))
            for queries, keys in self._blocks(T)
            if keys
        )

    def _blocks(self, T: int) -> list[tuple[range, range]]:
        """The times of each block of a text of T tokens, with those of the block that it attends to."""
        n = len(self.permutation)
        size = -(-T // n)
        blocks = [range(min(T, number * size), min(T, (number + 1) * size)) for number in range(n)]
        return [(block, blocks[other]) for block, other in zip(blocks, self.permutation, strict=True)]
