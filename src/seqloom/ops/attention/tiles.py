"""The tiles of the matrix of scores that a pattern touches: blocks of queries against blocks of keys."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from torch import Tensor

Predicate: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(query times, key times) → True where the query attends to the key; elementwise, any broadcast shapes"""
SIZE = 64
"""tokens of a block: larger blocks compute more hidden pairs, smaller ones are slower per pair"""


@final
@dataclass(frozen=True)
class Tiles:
    """Where `visible` can be True: each block of queries against the blocks of keys that `blocks` lists."""

    queries: Tensor
    """(N, b): times, -1 for an empty slot; no time occurs twice"""
    keys: Tensor
    """(M, c): times, -1 for an empty slot"""
    blocks: Tensor
    """(N, m): the indices of the blocks of keys for each block of queries, -1 where it has fewer than m"""
    visible: Predicate


def pad_blocks(times: Tensor, size: int) -> Tensor:
    """The times in blocks of `size` (N, size), filled up with -1."""
    return torch.nn.functional.pad(times, (0, -len(times) % max(size, 1)), value=-1).view(-1, max(size, 1))


def vectors(times: Tensor) -> Tensor:
    """The times in blocks of c (N, c): SIZE, or for fewer times their number, rounded up to a multiple of 16 for C."""
    return pad_blocks(times, min(SIZE, -(-max(len(times), 1) // 16) * 16))


def blocks_of(T: int, block: int, joined: bool = True) -> Tensor:
    """The times 0 … T-1 in rows of at most SIZE, for a pattern that cuts the text into blocks of `block` tokens.

    A row holds all or part of one block, or, if `joined`, several whole blocks. A `block` of 1 does not restrict rows.
    """
    if block == 1 or block >= T:
        return vectors(torch.arange(T))
    if block <= SIZE:
        return pad_blocks(torch.arange(T), block * (SIZE // block) if joined else block)
    offsets = vectors(torch.arange(block))
    times = torch.arange(-(-T // block))[:, None, None] * block + offsets
    times = torch.where((offsets >= 0) & (times < T), times, -1).flatten(0, 1)
    return times[(times >= 0).any(1)]


def ranges(first: Tensor, last: Tensor) -> Tensor:
    """The numbers first … last of each row, then -1: (N,), (N,) → (N, m)."""
    longest = int((last - first).max()) + 1
    numbers = first[:, None] + torch.arange(max(longest, 0))
    return torch.where(numbers <= last[:, None], numbers, -1)


def list_columns(mask: Tensor) -> Tensor:
    """The columns in which each row of (N, M) is True, in order, then -1: (N, m)."""
    order = torch.argsort(~mask, dim=1, stable=True)[:, : int(mask.sum(1).max())]
    return torch.where(mask.gather(1, order), order, -1)


def among(keys: Tensor, T: int, visible: Predicate, causal: bool) -> Tiles:
    """Tiles of all T queries with these keys; if `causal`, without blocks of keys after a block of queries.

    `keys` are the times of the keys, in order.
    """
    queries = vectors(torch.arange(T))
    key_blocks = vectors(keys)
    key_count = torch.full((len(queries),), len(keys))  # for each block of queries
    if causal:
        key_count = torch.searchsorted(keys, queries.amax(1), right=True)
    last = (key_count + key_blocks.shape[1] - 1) // key_blocks.shape[1] - 1
    return Tiles(queries, key_blocks, ranges(torch.zeros_like(last), last), visible)
