"""Attention over sparse patterns, one for each head: what the mixers that choose a pattern share.

The projections, the cache and the equation are those of `attention`; the sums run over the keys that a pattern lets
through. A token reads from the cache the keys that its patterns look at, and no others.
"""

from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.position import Place, QueriesKeysPosition
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View, of_heads
from seqloom.mixers.attention.attention import TRAITS, AttentionConfig, Heads, extended, written
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops import ring
from seqloom.ops.attention import attend, everywhere, sparse, weights
from seqloom.ops.attention.patterns import Neighbors, Pattern, Within, around, fixed, merged, strided
from seqloom.ops.attention.plan import terms
from seqloom.ops.attention.price import price

EITHER = replace(TRAITS, causal="either")
BIDIRECTIONAL = Traits(causal="never", streams=False, state="none")


def require_undecayed(mixer: Heads) -> None:
    """Raises ValueError for a position that changes scores by distance, which sparse patterns do not compute."""
    position = mixer.position
    if position is not None and (not isinstance(position, QueriesKeysPosition) or position.fade is not None):
        raise ValueError("sparse patterns go with rotary positions or none: choose another model.position")


def per_head(patterns: Sequence[Pattern], heads: int, context: int | None) -> tuple[Pattern, ...]:
    """One pattern for each head, within the context. ValueError where there are fewer or more."""
    if len(patterns) != heads:
        raise ValueError(f"{heads} heads need a pattern each, but there are {len(patterns)}: list one for each head")
    if context is None:
        return tuple(patterns)
    return tuple(Within(pattern, context) for pattern in patterns)


def weighted(patterns: Sequence[Pattern], span: Span, width: int) -> Cost:
    """The price of the attention of all heads, which are computed in parallel."""
    each = [price(*_terms(pattern, span), width, 1) for pattern in patterns]
    return sum((cost.parallel() for cost in each[1:]), each[0])


def _terms(pattern: Pattern, span: Span) -> tuple[int, int]:
    if span.per == "sequence":
        return terms(pattern, span.T)
    keys = len(pattern.keys(span.T - 1))
    return min(keys, 1), keys


def views(mixer: Heads, patterns: Sequence[Pattern], x: Stream) -> list[View]:
    """The weights of each head in the first row."""
    q, k, _ = mixer.projected(x[:1])
    T = x.shape[1]
    found = sparse.each_pattern(patterns, lambda each, q, k, _: weights(q, k, pattern=each.of(T)), q, k, k)
    return of_heads(found[0])


@final
class PatternAttention(Heads, PackedMixer):
    """Causal attention with a pattern for each head. State: the keys and values that can still be looked at."""

    def __init__(self, config: AttentionConfig, layer: Layer, patterns: Sequence[Pattern]) -> None:
        super().__init__(config, layer)
        require_undecayed(self)
        self.patterns = per_head(patterns, self.heads, layer.context)
        reaches = [pattern.reach for pattern in patterns]
        self.reach = None if None in reaches else max(reach for reach in reaches if reach is not None)
        self.context = layer.context
        if self.reach is not None and layer.context is not None:
            self.reach = min(self.reach, layer.context)
        self.traits: Traits = TRAITS if self.reach is None else replace(TRAITS, state="window")

    @property
    @override
    def memory(self) -> Memory:
        """Keys and values (B, G, C, K), C of them; as many as the patterns reach back, where that is known."""
        sizes = (self.kv_heads, self.reach or 0, self.width)
        cache = Entry(sizes, grows=self.reach is None, axis=1, most=self.reach or self.context)
        return {"k": cache, "v": cache}

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        if state is None:
            return self.out(sparse.attend(*self.projected(x), self.patterns), x), {}
        q, k, v = self.projected(x, state["length"])
        size = state["k"].shape[2]
        used = ring.held(size, length_of(state))
        room = self._room(used + x.shape[1], size)
        entries = {
            name: extended(state[name], room, state["length"], new, lengths) for name, new in (("k", k), ("v", v))
        }
        if used == 0:
            return self.out(sparse.attend(q, k, v, self.patterns), x), entries
        k, v = (torch.cat([state[name][:, :, :used].to(x.dtype), new], 2) for name, new in (("k", k), ("v", v)))
        now = state["length"][:, None] + torch.arange(x.shape[1], device=x.device)
        then = torch.cat([ring.times(size, state["length"])[:, :used], now], 1)
        return self.out(self._looked(q, k, v, now, then), x), entries

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        # As `read`; the token is written into the cache first, and read there with the others. A full one doubles.
        length, size = length_of(state), state["k"].shape[2]
        count = length.bound if length.even else None
        needed = self._room(ring.held(size, length) + 1, size)
        room = self._room(2 * size, needed) if reuse and needed > size else needed
        H, G = self.heads, self.kv_heads
        q, k, v = self.w_qkv(x).view(len(x), H + 2 * G, 1, -1).split([H, G, G], 1)  # (B, H or G, 1, K)
        if isinstance(self.position, QueriesKeysPosition):
            q, k = self.position(q, k, length.tokens[:, None])
        keys, values = (written(state[n], room, length.tokens, count, new, reuse) for n, new in (("k", k), ("v", v)))
        if count is not None:
            y = self._token(q, keys, values, count)
        else:
            used = ring.held(room, length.after(1, 1))
            k, v = (cache[:, :, :used].to(x.dtype) for cache in (keys, values))
            then = ring.times(room, length.tokens + 1)[:, :used]
            y = self._looked(q, k, v, length.tokens[:, None], then)
        return self.w_out(y.flatten(1)), {"k": keys, "v": values}

    @override
    def views(self, x: Stream) -> list[View]:
        return views(self, self.patterns, x)

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self.w_qkv, self.position, weighted(self.patterns, span, self.width), self.w_out

    def _looked(self, q: Tensor, k: Tensor, v: Tensor, now: Tensor, then: Tensor) -> Tensor:
        """Queries at times (B, Tq) over all keys at times (B, Tk), under the mask of each pattern."""
        return sparse.each_pattern(
            self.patterns,
            lambda pattern, *heads: attend(*heads, pattern=pattern, query_time=now, key_time=then),
            *(q, k, v),
        )

    def _token(self, q: Tensor, keys: Tensor, values: Tensor, t: int) -> Tensor:
        """The query of every row at time t over the places of the cache that its patterns look at."""
        groups, room, parts = sparse.heads_of(self.patterns), keys.shape[2], []
        for pattern, heads in groups.items():
            places = (pattern.keys(t) % room).to(q.device)
            if len(groups) == 1:
                k, v = (cache.index_select(2, places).to(q.dtype) for cache in (keys, values))
                return attend(q, k, v, pattern=everywhere)
            of_keys = torch.tensor(heads, device=q.device)[:, None] * self.kv_heads // self.heads
            k, v = (cache[:, of_keys, places].to(q.dtype) for cache in (keys, values))
            parts.append(attend(q[:, heads], k, v, pattern=everywhere))
        return sparse.in_order(parts, groups)

    def _room(self, needed: int, already: int) -> int:
        if self.reach is not None:
            return self.reach
        return max(already, needed if self.context is None else min(needed, self.context))


class BidirectionalPatterned(Heads, BidirectionalMixer, ABC):
    """A bidirectional mixer with a pattern for each head."""

    traits = BIDIRECTIONAL

    def __init__(self, config: AttentionConfig, layer: Layer, patterns: Sequence[Pattern]) -> None:
        super().__init__(config, layer)
        require_undecayed(self)
        self.patterns = per_head(patterns, self.heads, layer.context)

    @override
    def views(self, x: Stream) -> list[View]:
        return views(self, self.patterns, x)

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self.w_qkv, self.position, weighted(self.patterns, span, self.width), self.w_out


@final
class BidirectionalPatternAttention(BidirectionalPatterned):
    """Attention of whole rows with a pattern for each head."""

    @override
    def read(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        return self.out(sparse.attend(*self.projected(x), self.patterns, lengths), x)


def named(config: AttentionConfig, layer: Layer) -> PatternAttention | BidirectionalPatternAttention:
    """`attention` with the patterns that its settings name; ValueError where they have no bidirectional form."""
    wide = 0 if config.window is None else config.window - 1
    if layer.causal:
        known = {
            "all": Neighbors(None),
            "local": Neighbors(wide),
            "strided": merged(strided(config.length)),
            "fixed": merged(fixed(config.length, config.summary)),
        }
        return PatternAttention(config, layer, [known[name] for name in config.patterns])
    both: dict[str, Pattern] = {"all": Neighbors(None, causal=False), "local": around(wide)}
    for name in config.patterns:
        if name not in both:
            raise ValueError(f"the {name} pattern is causal: it has no bidirectional form; these have: all, local")
    return BidirectionalPatternAttention(config, layer, [both[name] for name in config.patterns])


class PatternConfig(MixerConfig, ABC):
    """Settings of a mixer that chooses a pattern."""

    heads: int = Field(4, ge=1, description="heads; divides dim")
    traits: ClassVar[Traits] = TRAITS

    @property
    @override
    def places(self) -> frozenset[Place]:
        return frozenset({"queries_keys"})

    @property
    def of_heads(self) -> AttentionConfig:
        """The settings of the projections."""
        return AttentionConfig(heads=self.heads)

    def causal(self, layer: Layer, patterns: Sequence[Pattern]) -> PatternAttention:
        """The causal mixer of these patterns, one for each head."""
        return PatternAttention(self.of_heads, layer, patterns)

    def bidirectional(self, layer: Layer, patterns: Sequence[Pattern]) -> BidirectionalPatternAttention:
        """The bidirectional mixer of these patterns, one for each head."""
        return BidirectionalPatternAttention(self.of_heads, layer, patterns)
