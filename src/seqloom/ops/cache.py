"""The caches of keys and values: rings (B, G, C, K) of `ring`, whose heads are written alike."""

import torch
from torch import Tensor

from seqloom.ops import ring


def extended(cache: Tensor, room: int, length: Tensor, new: Tensor, lengths: Tensor | None) -> Tensor:
    """The cache (B, G, C, K) with `room` slots, after each row read new (B, G, T, K), or its first `lengths` (B,)."""
    G = cache.shape[1]
    of_heads = None if lengths is None else lengths.repeat_interleave(G)
    grown = ring.grow(cache.flatten(0, 1), room)
    return ring.write(grown, length.repeat_interleave(G), new.flatten(0, 1), of_heads).unflatten(0, (-1, G))


def written(cache: Tensor, room: int, length: Tensor, count: int | None, new: Tensor, reuse: bool) -> Tensor:
    """The cache with `room` slots and one more token (B, G, 1, K); with `reuse` it is written where it has room.

    `count` tokens were read by every row; None where rows differ.
    """
    if count is None and not reuse:
        return extended(cache, room, length, new, None)
    new = new[:, :, 0].detach() if reuse else new[:, :, 0]
    grown = ring.grow(cache.flatten(0, 1), room).unflatten(0, cache.shape[:2]) if cache.shape[2] < room else cache
    if count is None:
        grown[torch.arange(len(length), device=length.device), :, length % room] = new.to(grown.dtype)
        return grown
    grown = grown.clone() if grown is cache and not reuse else grown
    grown[:, :, count % room] = new
    return grown
