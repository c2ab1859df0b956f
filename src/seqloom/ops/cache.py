"""Caches of keys and values, which are rings (B, G, C, K) as in `ring`, and caches of whole tokens."""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.transforms import transformed
from seqloom.ops import ring


def extended(cache: Tensor, room: int, length: Tensor, new: Tensor, lengths: Tensor | None) -> Tensor:
    """The cache (B, G, C, K) with `room` slots, after each row read new (B, G, T, K), or its first `lengths` (B,)."""
    G = cache.shape[1]
    head_lengths = None if lengths is None else lengths.repeat_interleave(G)
    enlarged = ring.grow(cache.flatten(0, 1), room)
    return ring.write(enlarged, length.repeat_interleave(G), new.flatten(0, 1), head_lengths).unflatten(0, (-1, G))


def written(cache: Tensor, room: int, length: Tensor, count: int | None, new: Tensor, reuse: bool) -> Tensor:
    """The cache with `room` slots and one more token (B, G, 1, K); with `reuse` it is written where it has room.

    `count` is the number of tokens that every row has read; None where rows differ.
    """
    if not reuse and (count is None or transformed()):  # transforms cannot follow a write into a new tensor
        return extended(cache, room, length, new, None)
    new = new[:, :, 0].detach() if reuse else new[:, :, 0]
    enlarged = ring.grow(cache.flatten(0, 1), room).unflatten(0, cache.shape[:2]) if cache.shape[2] < room else cache
    if count is None:
        enlarged[torch.arange(len(length), device=length.device), :, length % room] = new.to(enlarged.dtype)
        return enlarged
    enlarged = enlarged.clone() if enlarged is cache and not reuse else enlarged
    enlarged[:, :, count % room] = new
    return enlarged


def remembered(
    state: State, new: dict[str, Stream], max_slots: int | None, lengths: Lengths | None = None, reuse: bool = False
) -> Entries:
    """The caches (B, C, N) by name after each row read `new` (B, T, N), or the first `lengths` (B,) tokens of it.

    With `reuse` one token is written in place, and a full cache doubles, up to `max_slots` tokens.
    """
    length, entries = length_of(state), {}
    for name, x in new.items():
        size = state[name].shape[1]
        if reuse:
            cache = ring.grow(state[name], ring.token_room(size, length, max_slots, reuse))
            entries[name] = ring.write_(cache, length.tokens, x[:, 0].detach())
        else:
            cache = ring.grow(state[name], ring.room(size, length, x.shape[1], max_slots))
            entries[name] = ring.write(cache, length.tokens, x, lengths)
    return entries


def with_past(
    state: State | None,
    new: dict[str, Stream],
    max_slots: int | None,
    lengths: Lengths | None = None,
    reuse: bool = False,
) -> tuple[dict[str, Float[Tensor, "B C D"]], Entries]:
    """The values (B, C, N) of all tokens so far by name, the last T of them `new` (B, T, N); the new state's entries.

    For caches that do not wrap, whose slots are the positions of tokens. Without a state, `new` has all tokens.
    """
    if state is None:
        return new, {}
    entries = remembered(state, new, max_slots, lengths, reuse)
    cached = {}
    for name, x in new.items():
        filled_slots = ring.filled(entries[name].shape[1], length_of(state).after(x.shape[1], x.shape[1]))
        cached[name] = entries[name][:, :filled_slots].to(x.dtype)
    return cached, entries
