"""The tiles of the matrix of scores that a pattern touches: blocks of queries against blocks of keys."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from torch import Tensor

Predicate: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(query times, key times) → True where the query looks at the key; elementwise, any broadcast shapes"""
SIZE = 64
"""tokens of a block: larger ones compute more pairs that are not looked at, smaller ones are slower per pair"""


@final
@dataclass(frozen=True)
class Tiles:
    """Where `looks` can be True: each block of queries against the blocks of keys that `blocks` lists."""

    queries: Tensor
    """(N, b) times; -1 is empty. No time stands twice"""
    keys: Tensor
    """(M, c) times; -1 is empty"""
    blocks: Tensor
    """(N, m) numbers of blocks of keys; -1 where there are fewer"""
    looks: Predicate


def padded(times: Tensor, size: int) -> Tensor:
    """Times in blocks of `size` (N, size), -1 behind the last."""
    return torch.nn.functional.pad(times, (0, -len(times) % max(size, 1)), value=-1).view(-1, max(size, 1))


def vectors(times: Tensor) -> Tensor:
    """Times in blocks of SIZE (N, c), of fewer where there are fewer, but of whole vectors of 16 for C."""
    return padded(times, min(SIZE, -(-max(len(times), 1) // 16) * 16))


def blocks_of(T: int, block: int, joined: bool = True) -> Tensor:
    """0 … T-1 in blocks of at most SIZE, none of which has tokens on both sides of an end of a block of `block` tokens.

    Where several of these fit into SIZE they are `joined`. With `block` 1 there are no such ends.
    """
    if block == 1 or block >= T:
        return vectors(torch.arange(T))
    if block <= SIZE:
        return padded(torch.arange(T), block * (SIZE // block) if joined else block)
    inside = vectors(torch.arange(block))
    times = torch.arange(-(-T // block))[:, None, None] * block + inside
    times = torch.where((inside >= 0) & (times < T), times, -1).flatten(0, 1)
    return times[(times >= 0).any(1)]


def ranges(first: Tensor, last: Tensor) -> Tensor:
    """The numbers first … last of each row, -1 behind them: (N,), (N,) → (N, m)."""
    most = int((last - first).max()) + 1
    numbers = first[:, None] + torch.arange(max(most, 0))
    return torch.where(numbers <= last[:, None], numbers, -1)


def listed(looked: Tensor) -> Tensor:
    """The columns in which each row of (N, M) is True, in order, -1 behind them: (N, m)."""
    order = torch.argsort(~looked, dim=1, stable=True)[:, : int(looked.sum(1).max())]
    return torch.where(looked.gather(1, order), order, -1)


def among(keys: Tensor, T: int, looks: Predicate, causal: bool) -> Tiles:
    """All T queries over these keys, of which `causal` needs those up to the last query of a block."""
    queries = vectors(torch.arange(T))
    blocks = vectors(keys)
    count = torch.full((len(queries),), len(keys))
    if causal:
        count = torch.searchsorted(keys, queries.amax(1), right=True)
    last = (count + blocks.shape[1] - 1) // blocks.shape[1] - 1
    return Tiles(queries, blocks, ranges(torch.zeros_like(last), last), looks)
