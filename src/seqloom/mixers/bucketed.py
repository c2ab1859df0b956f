"""Attention inside buckets: what the mixers that choose buckets for their tokens share.

    q = x W_qk,  v = x W_v,  k = s q / |q|        H heads of width K = D/H, one vector for queries and keys; no biases
    y = concat_h(attention inside buckets) W_out

There are two forms. In `PastBuckets` a token attends to the latest keys of its buckets; these depend on the past alone,
so the mixer can continue from a cache. In `TextBuckets` the whole text decides where buckets are cut into chunks: later
tokens influence which keys a token attends to, and if causal these keys are still its own and earlier ones.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View, of_heads
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.bucketing import Rule, attend, by_bucket, newest
from seqloom.ops.bucketing.choices import make_choice
from seqloom.ops.past.cache import past_and_new
from seqloom.ops.past.pack import within

PAST = Traits(causal="always", streams=True, state="grows")
AHEAD = Traits(causal="always", streams=False, state="none", selects_ahead=True)
WHOLE = Traits(causal="never", streams=False, state="none", selects_ahead=True)


class SharedHeads(Mixer, ABC):
    """Heads with one vector for queries and keys."""

    rule: Rule

    def __init__(self, layer: Layer, heads: int) -> None:
        super().__init__()
        D = layer.dim
        if D % heads:
            divisors = ", ".join(str(n) for n in range(1, D + 1) if D % n == 0)
            raise ValueError(f"dim {D} is not divisible by heads {heads}: choose heads from {divisors}")
        self.dim, self.heads, self.K, self.context = D, heads, D // heads, layer.context
        self.w_qk, self.w_v, self.w_out = (Linear(D, D, bias=False) for _ in range(3))

    def project(self, x: Stream) -> tuple[Tensor, Tensor]:
        """q and v (B, H, T, K)."""
        q, v = (w(x).unflatten(-1, (self.heads, self.K)).transpose(1, 2) for w in (self.w_qk, self.w_v))
        return q, v

    def keys(self, q: Tensor) -> Tensor:
        """k (…, K): q (…, K) divided by its norm."""
        return q * (q.square().sum(-1, keepdim=True) + 1e-6 * self.K).rsqrt()

    def out(self, y: Tensor) -> Stream:
        """The output (B, T, D) of the mixer, from the outputs (B, H, T, K) of its heads."""
        out: Tensor = self.w_out(y.transpose(1, 2).flatten(2))
        return out

    @abstractmethod
    def read_heads(self, q: Tensor, v: Tensor, time: Tensor) -> Tensor:
        """The outputs (B, H, T, V) of the heads for tokens at these times (B, T); a time is negative at padding."""

    @override
    def plots(self, x: Stream) -> list[View]:
        q, _ = self.project(x[:1])
        T = x.shape[1]
        values = torch.eye(T, dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        return of_heads(self.read_heads(q, values, torch.arange(T, device=x.device)[None])[0])


class ChosenByText(BidirectionalMixer, ABC):
    """A mixer that needs whole texts, because later tokens influence the choice of keys; attention may be causal."""

    @override
    def _reads_whole(self, verb: str) -> ValueError:
        if self.traits.causal == "never":
            return super()._reads_whole(verb)
        name = type(self).__name__
        return ValueError(
            f"{name} chooses what a token attends to by later tokens too: it has no {verb}; "
            "set choice: past to have one"
        )


class TextBuckets(SharedHeads, ChosenByText, ABC):
    """Buckets cut into chunks by the whole text. Causal except for the choice of keys, or bidirectional."""

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        q, v = self.project(x)
        time = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        if lengths is not None:
            time = torch.where(within(lengths, x.shape[1]), time, -1)
        return self.out(self.read_heads(q, v, time))


class PastBuckets(SharedHeads, CachingMixer, ABC):
    """A token attends to the latest keys of its buckets. State: k, v and the buckets of all tokens, or of a context."""

    traits = PAST
    rounds: int

    @abstractmethod
    def buckets(self, q: Tensor) -> Tensor:
        """The buckets (B, H, R, T) of queries (B, H, T, K) in each of R rounds; each depends on its own query alone."""

    @property
    @override
    def state_spec(self) -> StateSpec:
        cache = StateEntry((self.heads, 0, self.K), grows=True, axis=1, max_slots=self.context)
        bucket_cache = StateEntry((self.heads, 0, self.rounds), "count", grows=True, axis=1, max_slots=self.context)
        return {"k": cache, "v": cache, "buckets": bucket_cache}

    @override
    def read_heads(self, q: Tensor, v: Tensor, time: Tensor) -> Tensor:
        return attend(q, self.keys(q), v, time, by_bucket(make_choice(lambda: self.buckets(q)), time), self.rule)

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        q, v = self.project(x)
        T = x.shape[1]
        if state is None:
            return self.out(self.read_heads(q, v, torch.arange(T, device=x.device).expand(len(x), -1))), {}
        length = length_of(state)
        own_buckets = make_choice(lambda: self.buckets(q)).transpose(2, 3)
        new = {"k": self.keys(q), "v": v, "buckets": own_buckets}
        past, entries = past_and_new(length, state, new, lengths, reuse)
        k, v, buckets = past.values
        if T == 1 and lengths is None:
            y = newest(q, k, v, buckets, own_buckets, length.tokens, past.then, self.rule)
            return self.out(y), entries
        filled = k.shape[2] - T
        now = past.now if lengths is None else torch.where(within(lengths, T), past.now, -1)
        time = torch.cat([past.then[:, :filled], now], 1)
        q = pad(q, (0, 0, filled, 0))  # `attend` takes as many queries as keys: zeros, whose outputs are dropped
        y = attend(q, k, v, time, by_bucket(buckets.transpose(2, 3), time), self.rule)[:, :, filled:]
        return self.out(y), entries
