"""Heads that keep the keys and values of the tokens that can still be attended to: a ring, or a buffer that grows.

Both are rings of `seqloom.ops.past.ring`; a ring that has not wrapped is a buffer that grows.
"""

from abc import ABC

from typing_extensions import override

from seqloom.core.mixer import Traits
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.heads import Heads

TRAITS = Traits(causal="always", streams=True, state="grows")


class CachedHeads(Heads, CachingMixer, ABC):
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
