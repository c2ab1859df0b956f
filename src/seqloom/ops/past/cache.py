"""Caches of keys and values, which are rings (B, G, C, K) as in `ring`, and caches of whole tokens."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.graphs import is_transformed
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, Length, State, length_of
from seqloom.ops.past import ring


def extend_cache(cache: Tensor, length: Tensor, new: Tensor, lengths: Tensor | None) -> Tensor:
    """The cache (B, G, C, K), which has room, after each row read new (B, G, T, K), or its first `lengths` (B,)."""
    G = cache.shape[1]
    head_lengths = None if lengths is None else lengths.repeat_interleave(G)
    heads = cache.flatten(0, 1)
    return ring.write(heads, length.repeat_interleave(G), new.flatten(0, 1), head_lengths).unflatten(0, (-1, G))


def write_token(cache: Tensor, length: Length, new: Tensor, reuse: bool) -> Tensor:
    """The cache, which has room, with one more token (B, G, 1, K); with `reuse` it is written in place."""
    if not reuse and is_transformed():  # transforms cannot follow a write into a new tensor
        return extend_cache(cache, length.tokens, new, None)
    new = new[:, :, 0].to(cache.dtype)
    cache, new = (cache, new.detach()) if reuse else (cache.clone(), new)
    if length.even and length.bound is not None:  # one slot, which the host knows
        cache[:, :, length.bound % cache.shape[2]] = new
        return cache
    cache[torch.arange(len(cache), device=cache.device), :, length.tokens % cache.shape[2]] = new
    return cache


class Past(NamedTuple):
    """What the queries of a piece read."""

    values: tuple[Tensor, ...]
    """(B, G, C, K): of all tokens that are left, the new ones too"""
    now: Int[Tensor, "B T"]
    """the times of the new tokens"""
    then: Int[Tensor, "B C"]
    """the times of all, negative where a slot is empty"""
    all_before: bool = False
    """whether there is one new token and `values` are it and tokens before it, in any order, in every row"""


def past_and_new(
    length: Length,
    caches: Mapping[str, Tensor],
    new: dict[str, Tensor],
    lengths: Lengths | None = None,
    reuse: bool = False,
) -> tuple[Past, Entries]:
    """The caches (B, G, C, K) by name, after `length` tokens, together with `new` (B, G, T, K); the caches after both.

    A single token is written first, with `reuse` in place, so that the caches hold all that it reads. A longer piece
    stands behind them, since it may overwrite what its first queries read.
    """
    size = next(caches[name].shape[2] for name in new)
    T = next(x.shape[2] for x in new.values())
    if T == 1 and lengths is None:
        entries = {name: write_token(caches[name], length, x, reuse) for name, x in new.items()}
        filled = ring.count_filled(size, length.after(1, 1))
        then = ring.times(size, length.tokens + 1)[:, :filled]
        values = tuple([entries[name][:, :, :filled].to(x.dtype) for name, x in new.items()])
        all_before = length.even and length.bound is not None
        return Past(values, length.tokens[:, None], then, all_before), entries
    filled = ring.count_filled(size, length)
    now = length.tokens[:, None] + torch.arange(T, device=length.tokens.device)
    then = torch.cat([ring.times(size, length.tokens)[:, :filled], now], 1)
    values = tuple([torch.cat([caches[name][:, :, :filled].to(x.dtype), x], 2) for name, x in new.items()])
    entries = {name: extend_cache(caches[name], length.tokens, x, lengths) for name, x in new.items()}
    return Past(values, now, then), entries


def remember_entries(
    state: State, new: dict[str, Stream], lengths: Lengths | None = None, reuse: bool = False
) -> Entries:
    """The caches (B, C, N) by name after each row read `new` (B, T, N), or the first `lengths` (B,) tokens of it.

    With `reuse` one token is written in place.
    """
    if reuse:
        return {name: ring.write_(state[name], state["length"], x[:, 0].detach()) for name, x in new.items()}
    return {name: ring.write(state[name], state["length"], x, lengths) for name, x in new.items()}


def with_past(
    state: State | None,
    new: dict[str, Stream],
    lengths: Lengths | None = None,
    reuse: bool = False,
) -> tuple[dict[str, Float[Tensor, "B C D"]], Entries]:
    """The values (B, C, N) of all tokens so far by name, the last T of them `new` (B, T, N); the new state's entries.

    For caches that do not wrap, whose slots are the positions of tokens. Without a state, `new` has all tokens.
    """
    if state is None:
        return new, {}
    entries = remember_entries(state, new, lengths, reuse)
    cached = {}
    for name, x in new.items():
        filled_slots = ring.count_filled(entries[name].shape[1], length_of(state).after(x.shape[1], x.shape[1]))
        cached[name] = entries[name][:, :filled_slots].to(x.dtype)
    return cached, entries
