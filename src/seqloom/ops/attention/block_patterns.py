"""Sparse attention patterns that cut the text into blocks.

    Raster        Image Transformer, 2-D: rectangles of a picture, each with a halo above, left and right
    Permuted      blockwise: block r of the text looks at block π(r)
    RandomBlocks  Big Bird: a window, the ends and random blocks

Source: Parmer et al., arXiv:1802.05751; Qiu et al., arXiv:1911.02972; Zaheer et al., arXiv:2007.14062. Parmer et al.
generate a picture rectangle by rectangle; here pixels are read row by row, and j ≤ i is of that order. Big Bird has no
causal form: its pattern and j ≤ i is ours.
"""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.patterns import Pattern
from seqloom.ops.attention.tiles import Tiles, blocks_of, listed, padded, ranges, vectors


@final
@dataclass(frozen=True)
class Raster(Pattern):
    """Image Transformer, 2-D: a picture of `width` columns, read row by row, is cut into rectangles.

    A query looks at the pixels before it in its rectangle and in a halo of `above` rows and `side` columns around it.
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
        inside = (y >= top - self.above) & (x >= left - self.side) & (x < left + self.columns + self.side)
        return inside & (j <= i)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        down, across = (-(-n // size) for n, size in ((-(-T // self.width), self.rows), (self.width, self.columns)))
        y = torch.arange(down)[:, None, None, None] * self.rows + torch.arange(self.rows)[:, None]
        x = torch.arange(across)[:, None, None] * self.columns + torch.arange(self.columns)
        times = y * self.width + x
        times = torch.where((x < self.width) & (times < T), times, -1).flatten(0, 1).flatten(1)
        up, aside = -(-self.above // self.rows), -(-self.side // self.columns)
        row, column = torch.arange(down)[:, None, None, None], torch.arange(across)[:, None, None]
        row = row + torch.arange(-up, 1)[:, None]
        column = column + torch.arange(-aside, aside + 1)
        there = (row >= 0) & (column >= 0) & (column < across)
        blocks = torch.where(there, row * across + column, -1).flatten(0, 1).flatten(1)
        return [Tiles(times, times, blocks, self)]

    @override
    def keys(self, t: int) -> Tensor:
        row, column = t // self.width, t % self.width
        top, left = row // self.rows * self.rows, column // self.columns * self.columns
        y = torch.arange(max(0, top - self.above), row + 1)
        x = torch.arange(max(0, left - self.side), min(self.width, left + self.columns + self.side))
        then = (y[:, None] * self.width + x).flatten()
        return then[then <= t]


@final
@dataclass(frozen=True)
class Permuted(Pattern):
    """Blockwise: the text is cut into as many blocks as `permutation` has numbers; block r looks at permutation[r]."""

    permutation: tuple[int, ...]
    length: Tensor | int = 0

    @property
    @override
    def causal(self) -> bool:
        return False

    @property
    @override
    def measured(self) -> bool:
        return True

    @override
    def of(self, length: Tensor | int) -> "Permuted":
        return replace(self, length=length)

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        n = len(self.permutation)
        size = torch.as_tensor(-(-self.length // n), device=i.device).clamp(min=1)
        block = (i // size).clamp(max=n - 1)
        wanted = torch.zeros_like(block)
        for number, other in enumerate(self.permutation):
            wanted = torch.where(block == number, other, wanted)
        return (j // size == wanted) & (j < self.length)

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
    def counted(self, T: int) -> tuple[int, int]:
        size = -(-T // len(self.permutation))
        tokens = [max(0, min(size, T - block * size)) for block in range(len(self.permutation))]
        seen = [tokens[other] for other in self.permutation]
        looking = sum(n for n, keys in zip(tokens, seen, strict=True) if keys)
        return looking, sum(n * keys for n, keys in zip(tokens, seen, strict=True))


@final
@dataclass(frozen=True)
class RandomBlocks(Pattern):
    """Big Bird: blocks of `size` tokens look at those up to `half` away, at `random` others, and at the global ones.

    Global blocks are the first `first` and the last `last` ones: all look at them, and they look at all. The random
    blocks of a block are uniform in equal shares of what is left, from `seed` and the block's number alone.
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
    def measured(self) -> bool:
        return not self.causal

    @override
    def of(self, length: Tensor | int) -> "RandomBlocks":
        return self if self.causal else replace(self, length=length)

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        row, column = i // self.size, j // self.size
        looked = self.near(row, column)
        for chosen in self.drawn(row):
            looked = looked | (column == chosen)
        return looked & ((j <= i) if self.causal else (j < self.length))

    def near(self, row: Tensor, column: Tensor) -> Tensor:
        """Whether a block is in the window or at the ends of another, or the other way round."""
        looked = ((row - column).abs() <= self.half) | (column < self.first) | (row < self.first)
        if not self.causal and self.last:
            end = -(-self.length // self.size) - self.last
            looked = looked | (column >= end) | (row >= end)
        return looked

    def drawn(self, row: Tensor) -> list[Tensor]:
        """The random blocks of each of these blocks, -1 where nothing is left to draw from."""
        low, window = (row - self.half).clamp(min=self.first), torch.zeros_like(row)
        if self.causal:
            count = low - self.first
        else:
            end = torch.as_tensor(-(-self.length // self.size) - self.last, device=row.device)
            window = (torch.minimum(row + self.half + 1, end) - low).clamp(min=0)
            count = (end - self.first - window).clamp(min=0)
        chosen = []
        for number in range(self.random):
            share = (count * (number + 1)) // self.random - (count * number) // self.random
            at = self.first + (count * number) // self.random + (_hashed(row, number, self.seed) * share >> 31)
            at = torch.where(at >= low, at + window, at)
            chosen.append(torch.where(share > 0, at, -1))
        return chosen

    @override
    def tiles(self, T: int) -> list[Tiles]:
        bound = replace(self, length=T)
        times = padded(torch.arange(T), self.size)
        n = len(times)
        row, column = torch.arange(n)[:, None], torch.arange(n)[None]
        looked = bound.near(row, column)
        for chosen in bound.drawn(row):
            looked = looked | (column == chosen)
        if self.causal:
            looked = looked & (column <= row)
        return [Tiles(times, times, listed(looked), bound)]

    @override
    def keys(self, t: int) -> Tensor:
        row = t // self.size
        if row < self.first:
            return torch.arange(t + 1)
        drawn = torch.tensor([-1]) if not self.random else torch.stack(self.drawn(torch.tensor(row)))
        around_it = torch.arange(max(0, row - self.half), row + 1)
        numbers = torch.cat([torch.arange(self.first), around_it, drawn[drawn >= 0]]).unique()
        then = (numbers[:, None] * self.size + torch.arange(self.size)).flatten()
        return then[then <= t]


def _hashed(row: Tensor, number: int, seed: int) -> Tensor:
    """Whole numbers from 0 to 2³¹ - 1 that look random, the same for the same arguments."""
    x = (row * 0x9E3779B1 + number * 0x85EBCA6B + (seed & 0xFFFFF) * 0xC2B2AE35 + 0x165667B1) & 0x7FFFFFFF
    for factor in (0x2C1B3C6D, 0x297A2D39):
        x = ((x ^ (x >> 15)) * factor) & 0x7FFFFFFF
    return x ^ (x >> 16)
