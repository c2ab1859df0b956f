"""Attention over sparse patterns, one for each head: what the mixers that choose a pattern share.

The projections, the cache and the equation are those of `attention`; the sums run over the keys of a pattern. A token
reads only the keys of its patterns from the cache.
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
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.position import Place, QueriesKeysPosition
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View, of_heads
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.mixers.cached_heads import TRAITS, CachedHeads
from seqloom.mixers.heads import Heads, HeadSettings
from seqloom.ops.attention import attend, everywhere, sparse, weights
from seqloom.ops.attention.drawing import by_heads
from seqloom.ops.attention.patterns import Pattern, Union, Within
from seqloom.ops.attention.plan import keys, terms
from seqloom.ops.attention.reference import price
from seqloom.ops.past import ring
from seqloom.ops.past.cache import past_and_new

EITHER = replace(TRAITS, causal="either")
BIDIRECTIONAL = Traits(causal="never", streams=False, state="none")


def require_undecayed(mixer: Heads) -> None:
    """Raises ValueError for a position that changes scores by distance, which sparse patterns do not compute."""
    position = mixer.position
    if position is not None and (not isinstance(position, QueriesKeysPosition) or position.decay is not None):
        raise ValueError("sparse patterns go with rotary positions or none: choose another model.position")


def per_head(patterns: Sequence[Pattern], heads: int, context: int | None) -> tuple[Pattern, ...]:
    """One pattern for each head, within the context. ValueError where there are fewer or more."""
    if len(patterns) != heads:
        raise ValueError(f"{heads} heads need a pattern each, but there are {len(patterns)}: list one for each head")
    if context is None:
        return tuple(patterns)
    return tuple(Within(pattern, context) for pattern in patterns)


def covers(patterns: Sequence[Pattern], context: int | None, causal: bool) -> bool:
    """Whether every query of a text of `context` tokens attends to all keys that it may; False without a context."""
    if not context:
        return False
    with torch.device("cpu"):  # also of a mixer on the meta device
        some = torch.tensor([0, context // 2, context - 1])[:, None]
        time = torch.arange(context)
        allowed = time <= some if causal else torch.ones(3, context, dtype=torch.bool)
        if not all((pattern.of(context)(some, time) | ~allowed).all() for pattern in set(patterns)):
            return False  # three queries tell most patterns, before all pairs are counted
        pairs = context * (context + 1) // 2 if causal else context**2
        return all(terms(pattern, context)[1] == pairs for pattern in set(patterns))


def price_heads(patterns: Sequence[Pattern], span: Span, width: int) -> Cost:
    """The price of the attention of all heads, which are computed in parallel."""
    prices = [price(*_terms(pattern, span), width, 1) for pattern in patterns]
    return sum((cost.parallel() for cost in prices[1:]), prices[0])


def _terms(pattern: Pattern, span: Span) -> tuple[int, int]:
    """The queries of a span that attend to at least one key, and their pairs of query and key."""
    if span.per == "sequence":
        return terms(pattern, span.T)
    seen = keys(pattern, span.T - 1)
    return min(seen, 1), seen


def plot_weights(mixer: Heads, patterns: Sequence[Pattern], x: Stream) -> list[View]:
    """The attention weights of each head in the first row of x (B, T, D)."""
    q, k, _ = mixer.project(x[:1])
    T = x.shape[1]
    head_weights = sparse.each_pattern(patterns, lambda pattern, q, k, _: weights(q, k, pattern=pattern.of(T)), q, k, k)
    return of_heads(head_weights[0])


@final
class PatternAttention(CachedHeads):
    """Causal attention with a pattern for each head. State: the keys and values that can still be attended to."""

    def __init__(self, config: HeadSettings, layer: Layer, patterns: Sequence[Pattern]) -> None:
        super().__init__(config, layer)
        require_undecayed(self)
        self.patterns = per_head(patterns, self.heads, layer.context)
        self.max_slots = self.context = layer.context
        self.traits = TRAITS
        reach = Union(tuple(patterns)).reach
        if reach is not None:
            self.max_slots = self.min_slots = min(reach, layer.context or reach)
            self.traits = replace(TRAITS, state="window")

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        q, k, v = self.project(x, state["length"] if state else None)
        if state is None:
            return self.out(sparse.attend(q, k, v, self.patterns), x), {}
        length = length_of(state)
        past, entries = past_and_new(length, state, {"k": k, "v": v}, lengths, reuse)
        past_k, past_v = past.values
        if ring.count_filled(state["k"].shape[2], length) == 0:
            y = sparse.attend(q, k, v, self.patterns)
        elif past.all_before and length.bound is not None:
            y = self._token(q, entries["k"], entries["v"], length.bound)
        else:
            y = self._attend(q, past_k, past_v, past.now, past.then)
        return self.out(y, x), entries

    @property
    @override
    def same_as(self) -> str | None:
        return "attention" if covers(self.patterns, self.context, True) else None

    @override
    def plots(self, x: Stream) -> list[View]:
        return plot_weights(self, self.patterns, x)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self.w_qkv, self.position, price_heads(self.patterns, span, self.width), self.w_out

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, now: Tensor, then: Tensor) -> Tensor:
        """The outputs of queries at times `now` (B, Tq) over keys at times `then` (B, Tk), by each head's pattern."""
        return sparse.each_pattern(
            self.patterns,
            lambda pattern, *heads: attend(*heads, pattern=pattern, query_time=now, key_time=then),
            *(q, k, v),
        )

    def _token(self, q: Tensor, keys: Tensor, values: Tensor, t: int) -> Tensor:
        """The outputs (B, H, 1, V) of queries at time t, over the cached keys of each head's pattern."""
        groups, size = sparse.heads_of(self.patterns), keys.shape[2]
        outputs = []
        for pattern, heads in groups.items():
            slots = (pattern.keys(t) % size).to(q.device)
            if len(groups) == 1:
                k, v = (cache.index_select(2, slots).to(q.dtype) for cache in (keys, values))
                return attend(q, k, v, pattern=everywhere)
            kv_heads = torch.tensor(heads, device=q.device)[:, None] * self.kv_heads // self.heads
            k, v = (cache[:, kv_heads, slots].to(q.dtype) for cache in (keys, values))
            outputs.append(attend(q[:, heads], k, v, pattern=everywhere))
        return sparse.in_order(outputs, groups)


class BidirectionalPatterned(Heads, BidirectionalMixer, ABC):
    """A bidirectional mixer with a pattern for each head."""

    traits = BIDIRECTIONAL

    def __init__(self, config: HeadSettings, layer: Layer, patterns: Sequence[Pattern]) -> None:
        super().__init__(config, layer)
        require_undecayed(self)
        self.patterns, self.context = per_head(patterns, self.heads, layer.context), layer.context

    @override
    def plots(self, x: Stream) -> list[View]:
        return plot_weights(self, self.patterns, x)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self.w_qkv, self.position, price_heads(self.patterns, span, self.width), self.w_out


@final
class BidirectionalPatternAttention(BidirectionalPatterned):
    """Attention of whole rows with a pattern for each head."""

    @property
    @override
    def same_as(self) -> str | None:
        return "attention" if covers(self.patterns, self.context, False) else None

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        return self.out(sparse.attend(*self.project(x), self.patterns, lengths), x)


@final
class PlainHeads(HeadSettings):
    """Heads that do not change queries, keys or scores."""


class PatternConfig(MixerConfig, ABC):
    """Settings of a mixer that chooses a pattern."""

    heads: int = Field(4, ge=1, description="heads; divides dim")
    traits: ClassVar[Traits] = TRAITS

    @property
    @override
    def places(self) -> frozenset[Place]:
        return frozenset({"queries_keys"})

    @override
    def draw_pattern(self, T: int, causal: bool) -> dict[str, list[str]]:
        mixer = self.make(Layer(self.heads, None, causal))
        assert isinstance(mixer, (PatternAttention, BidirectionalPatterned))
        return by_heads(mixer.patterns, T)

    @property
    def of_heads(self) -> HeadSettings:
        """The settings of the projections."""
        return PlainHeads(heads=self.heads)

    def causal(self, layer: Layer, patterns: Sequence[Pattern]) -> PatternAttention:
        """The causal mixer of these patterns, one for each head."""
        return PatternAttention(self.of_heads, layer, patterns)

    def bidirectional(self, layer: Layer, patterns: Sequence[Pattern]) -> BidirectionalPatternAttention:
        """The bidirectional mixer of these patterns, one for each head."""
        return BidirectionalPatternAttention(self.of_heads, layer, patterns)
