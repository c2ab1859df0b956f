"""Heads that keep the keys and values of the tokens that can still be attended to: a ring, or a buffer that grows.

Both are rings of `seqloom.ops.past.ring`; a ring that has not wrapped is a buffer that grows.
"""

from abc import ABC

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.mixer import Traits
from seqloom.core.position import QueriesKeysPosition
from seqloom.core.shapes import Token
from seqloom.core.state import Entries, Length, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.heads import Heads
from seqloom.ops.lag_sum import window
from seqloom.ops.past import ring
from seqloom.ops.past.cache import extend_cache, write_token

TRAITS = Traits(causal="always", streams=True, state="grows")


class CachedHeads(Heads, PackedMixer, ABC):
    """Causal heads. State: keys and values, at most `max_slots` of each, or of all tokens."""

    max_slots: int | None
    """the largest number of tokens whose keys and values are cached; None for all"""
    min_slots: int = 0
    """slots in the cache of a new state: `max_slots` for a window, else 0"""

    @property
    @override
    def state_spec(self) -> StateSpec:
        """Keys and values (B, G, C, K), C slots of which `length` are filled, and the convolution's last inputs."""
        sizes = (self.kv_heads, self.min_slots, self.width)
        cache = StateEntry(sizes, grows=self.min_slots == 0, axis=1, max_slots=self.max_slots)
        past = {} if self.taps is None else {"past": StateEntry((len(self.taps) - 1, sum(self.sizes)))}
        return {"k": cache, "v": cache, **past}

    def read_on(self, state: State, k: Tensor, v: Tensor, lengths: Tensor | None) -> Entries:
        """The entries after new keys and values (B, G, T, K), or the first `lengths` (B,) of each row."""
        new = {"k": k, "v": v}
        return {name: extend_cache(state[name], state["length"], new[name], lengths) for name in new}

    def with_past(self, state: State, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Keys and values (B, G, C + T, K), cached ones first; the times (B, T) of queries and (B, C + T) of keys."""
        size = state["k"].shape[2]
        filled = ring.count_filled(size, length_of(state))
        k = torch.cat([state["k"][:, :, :filled].to(k.dtype), k], 2)
        v = torch.cat([state["v"][:, :, :filled].to(v.dtype), v], 2)
        now = state["length"][:, None] + torch.arange(k.shape[2] - filled, device=k.device)
        then = torch.cat([ring.times(size, state["length"])[:, :filled], now], 1)
        return k, v, now, then

    def token_heads(self, x: Token, state: State, reuse: bool) -> tuple[tuple[Tensor, Tensor, Tensor], Entries]:
        """Queries (B, H, 1, K), keys and values (B, G, 1, K) of a token x; the convolution's last inputs after it."""
        length, H, G = length_of(state), self.heads, self.kv_heads
        qkv = self.w_qkv(x)
        past: Entries = {}
        if self.taps is not None:
            qkv, past["past"] = window.advance(qkv, self.taps, state["past"], length, reuse)
        q, k, v = torch.split_with_sizes(qkv.view(len(x), H + 2 * G, 1, -1), (H, G, G), 1)
        q, k = self.normalize(q, k)
        if isinstance(self.position, QueriesKeysPosition):
            q, k = self.position(q, k, length.tokens[:, None])
        return (q, k, v), past

    def write_entries(self, state: State, k: Tensor, v: Tensor, reuse: bool) -> Entries:
        """The cache with one more key and value (B, G, 1, K)."""
        new = {"k": k, "v": v}
        return {name: write_token(state[name], length_of(state), new[name], reuse) for name in new}

    def token(self, x: Token, state: State, reuse: bool) -> tuple[Tensor, Entries]:
        """The queries (B, H, 1, K) of a token x, and the entries of the state after it."""
        (q, k, v), past = self.token_heads(x, state, reuse)
        return q, {**self.write_entries(state, k, v, reuse), **past}

    def in_use(self, entries: Entries, length: Length, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The keys and values (B, G, C, K) of the slots in use, after one more token than `length`."""
        filled = ring.count_filled(entries["k"].shape[2], length.after(1, 1))
        k, v = (entries[name][:, :, :filled].to(dtype) for name in ("k", "v"))
        return k, v
