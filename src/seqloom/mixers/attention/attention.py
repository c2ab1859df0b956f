"""Multi-head self-attention: every token reads all before it, weighted by how well they answer its query.

    [q k v] = x W_qkv + b_qkv                 W_qkv = [W_q W_k W_v]; H heads of q, G of k and v, width K = D/H
    z_ij = q_i · k_j / √K,   a_ij = e^{z_ij} / Σ_{j'≤i} e^{z_ij'}     per head h of q, with head ⌊hG/H⌋ of k and v
    y = concat_h(Σ_{j≤i} a_ij v_j) W_out + b_out

By default G = H and there are no biases. Grouped queries (G < H, or G = 1: multi-query) make the cache smaller. Queries
and keys may be divided by their root mean square (`qk_norm`); scores may have another `scale`, a `softcap` c,
z ← c tanh(z/c), a `sink`, a learned score for reading nothing, and what a `position` does to them; and y may pass a
gate, y ∘ σ(x W_g) (`output_gate`).

With a `context` L, a token looks back on the L latest tokens, itself included; up to L tokens that is the same. A
`window` is a smaller L, for local attention. The bidirectional form looks as far ahead as it looks back.

Source: Vaswani et al., arXiv:1706.03762; the Extractor paper's Eq. 10-17; Ainslie et al., arXiv:2305.13245 (G < H) and
Shazeer, arXiv:1911.02150 (G = 1); the options as in Qwen3 and OLMo 2 (norms), Gemma 2 (cap), gpt-oss (sinks) and
Qwen3-Next (gate). The Extractor paper never reads more than L tokens, so looking back on L is ours; seed 000 prints the
sum of Eq. 14 to t, seed 003 and we to i.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast, final

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate, rootnorm
from seqloom.core.layer import Layer
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.position import Place, PositionConfig, QueriesKeysPosition, Relation, RelativePosition
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View, of_heads
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops import ring
from seqloom.ops.attention import Bias, Pattern, around, attend, banded, causal, everywhere, weights
from seqloom.ops.attention.price import fading, price
from seqloom.ops.projection import Linear, project
from seqloom.positions import AnyPosition

PatternName: TypeAlias = Literal["all", "local", "strided", "fixed"]
PatternNames: TypeAlias = Annotated[tuple[PatternName, ...], Field(strict=False)]
TRAITS = Traits(causal="always", streams=True, state="grows")
PLACES: frozenset[Place] = frozenset({"queries_keys", "scores", "keys_values"})


class Heads(Mixer, ABC):
    """The projections of queries, keys, values and outputs, and what is done to queries, keys and scores."""

    position: QueriesKeysPosition | RelativePosition | None
    """none, too, where it is shared by all layers: then it is `shared`"""

    def __init__(self, config: "AttentionConfig", layer: Layer) -> None:
        super().__init__()
        dim, heads = layer.dim, config.heads
        if dim % heads:
            divisors = ", ".join(str(n) for n in range(1, dim + 1) if dim % n == 0)
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads from {divisors}")
        self.dim, self.heads, self.kv_heads, self.width = dim, heads, config.kv_heads or heads, dim // heads
        self.config = config
        self.sizes = [dim, self.kv_heads * self.width, self.kv_heads * self.width]
        """rows of W_q, W_k and W_v"""
        self.w_qkv = Linear(dim, sum(self.sizes), bias=config.bias != "none")
        self.w_out = Linear(dim, dim, bias=config.bias == "all")
        whole = config.qk_norm == "all"
        normed = [0, 0] if config.qk_norm == "none" else self.sizes[:2] if whole else [self.width, self.width]
        self.norm_q, self.norm_k = (nn.RMSNorm(size, eps=1e-6) if size else None for size in normed)
        self.w_gate = Linear(dim, dim, bias=config.bias != "none") if config.output_gate else None
        self.sinks = nn.Parameter(torch.zeros(heads)) if config.sinks else None
        position = config.acting(layer.position)
        built = None if position is None or position.shared else position.build(*config.sizes(layer))
        assert built is None or isinstance(built, (QueriesKeysPosition, RelativePosition))  # as `places` says
        self.position = built
        self.relative = position is not None and not isinstance(built, QueriesKeysPosition)
        fades = isinstance(built, QueriesKeysPosition) and built.fade is not None
        self.plain = config.plain and not self.relative and not fades
        """whether scores are those of the equation above"""

    @override
    def rebuild(self) -> None:
        if self.position is not None:
            self.position.rebuild(self.device)

    @property
    @override
    def parts(self) -> list[nn.Module]:
        """Those that know their price: norms of heads and a relative position are priced in `_priced`."""
        priced = (self.position if self.relative else None, self.norm_q, self.norm_k)
        return [part for part in super().parts if all(part is not each for each in priced)]

    def projected(self, x: Stream, before: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys and values (B, G, T, K) of tokens after `before` (B,) others; None for none."""
        parts = self.w_qkv.weight.split(self.sizes)  # three products: of one, each part would lie with gaps
        biases = [None] * 3 if self.w_qkv.bias is None else self.w_qkv.bias.split(self.sizes)
        products = (project(x, w, b) for w, b in zip(parts, biases, strict=True))
        q, k, v = (y.unflatten(-1, (-1, self.width)).transpose(1, 2) for y in products)
        if self.norm_q is not None:
            q, k = self._normed(q, self.norm_q), self._normed(k, self.norm_k)
        if isinstance(self.position, QueriesKeysPosition):
            time = torch.arange(x.shape[1], device=x.device)
            q, k = self.position(q, k, time if before is None else before[:, None] + time)
        return q, k, v

    def scored(self, q: Tensor, behind: int, ahead: int = 0, alone: bool = False) -> tuple[Tensor, dict[str, Any]]:
        """The queries, and what `attend` does to scores of keys from `behind` tokens back to `ahead` tokens ahead."""
        if self.plain:
            return q, {}
        config = self.config
        given: dict[str, Any] = {"scale": config.scale, "softcap": config.softcap, "sinks": self.sinks}
        if isinstance(self.position, QueriesKeysPosition):
            return q, {**given, "fade": self.position.fade}
        if not self.relative:
            return q, given
        relative = cast(RelativePosition, self.position or self.shared)
        relation: Relation = relative(behind, ahead, alone)
        if relation.values is not None:
            wide = torch.promote_types(q.dtype, torch.float32)
            given["bias"] = Bias(relation.values.to(wide), relation.first)
        q = q if relation.query is None else q + relation.query.to(q.dtype)
        return q, {**given, "score_change": relation.score_change, "value_change": relation.value_change}

    def out(self, y: Tensor, x: Stream) -> Stream:
        """The output (B, T, D) of what the heads gave (B, H, T, K) for x (B, T, D)."""
        y = y.transpose(1, 2).flatten(2)
        out: Tensor = self.w_out(y if self.w_gate is None else y * torch.sigmoid(self.w_gate(x)))
        return out

    def _normed(self, x: Tensor, norm: nn.RMSNorm | None) -> Tensor:
        """Queries or keys (B, H, T, K), each head or all heads together over their root mean square."""
        assert norm is not None
        if self.config.qk_norm == "heads":
            return cast(Tensor, norm(x))
        return cast(Tensor, norm(x.transpose(1, 2).flatten(2))).unflatten(-1, (-1, self.width)).transpose(1, 2)

    def _priced(self, span: Span, terms: int, distances: int) -> Iterable[Cost | nn.Module | None]:
        """The chain for `terms` pairs of queries and keys in all, at so many possible `distances`."""
        config, rows = self.config, span.rows
        norms = None
        if config.qk_norm == "heads":
            norms = rootnorm(rows * self.heads, self.width) + rootnorm(rows * self.kv_heads, self.width).parallel()
        elif config.qk_norm == "all":
            norms = rootnorm(rows, self.sizes[0]) + rootnorm(rows, self.sizes[1]).parallel()
        position: Cost | nn.Module | None = self.position
        fade = None
        biased = False
        if self.relative:
            relative = cast(RelativePosition, self.position or self.shared)
            position = relative.price(span, terms, distances)
            with torch.no_grad():
                biased = relative(0, 0, True).values is not None
        elif isinstance(self.position, QueriesKeysPosition) and self.position.fade is not None:
            fade = fading(rows, self.width, self.heads + self.kv_heads)
        scores = price(
            rows,
            terms,
            self.dim,
            self.heads,
            scale=config.scale,
            softcap=config.softcap is not None,
            bias=biased,
            sinks=config.sinks,
        )
        return (
            self.w_qkv,
            norms,
            position,
            fade,
            scores,
            gate(rows * self.dim) if config.output_gate else None,
            self.w_out,
        )


@final
class Attention(Heads, PackedMixer):
    """Causal multi-head self-attention over `dim` channels. State: keys and values, at most `context` of them.

    With a `window`, no larger than the context, it is of that size from the beginning.
    """

    traits = TRAITS

    def __init__(self, config: "AttentionConfig", layer: Layer) -> None:
        super().__init__(config, layer)
        self.context, self.least = layer.context, 0
        if config.window is not None:
            self.context = self.least = min(config.window, layer.context or config.window)
            self.traits = replace(TRAITS, state="window")

    @property
    @override
    def memory(self) -> Memory:
        """Keys and values (B, G, C, K), C places of which `length` are used."""
        sizes = (self.kv_heads, self.least, self.width)
        cache = Entry(sizes, grows=self.least == 0, axis=1, most=self.context)
        return {"k": cache, "v": cache}

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        T = x.shape[1]
        q, k, v = self.projected(x, state["length"] if state else None)
        entries = self._extended(state, k, v, lengths) if state else {}
        used = ring.held(state["k"].shape[2], length_of(state)) if state else 0
        if state is None or used == 0:
            q, scores = self.scored(q, self._reach(T) - 1)
            y = attend(q, k, v, pattern=self._pattern(T), **scores)
        else:
            q, scores = self.scored(q, used + T - 1)
            k = torch.cat([state["k"][:, :, :used].to(k.dtype), k], 2)
            v = torch.cat([state["v"][:, :, :used].to(v.dtype), v], 2)
            now = state["length"][:, None] + torch.arange(T, device=x.device)
            then = torch.cat([ring.times(state["k"].shape[2], state["length"])[:, :used], now], 1)
            y = attend(q, k, v, pattern=banded(self.context), query_time=now, key_time=then, **scores)
        return self.out(y, x), entries

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        # As `read`; the token is written into the cache first, and read there with the others. A full one doubles.
        length, size = length_of(state), state["k"].shape[2]
        count = length.bound if length.even else None
        needed = self._room(ring.held(size, length) + 1, size)
        room = self._room(2 * size, needed) if reuse and needed > size else needed
        H, G = self.heads, self.kv_heads
        q, k, v = self.w_qkv(x).view(len(x), H + 2 * G, 1, -1).split([H, G, G], 1)  # (B, H or G, 1, K)
        if self.norm_q is not None:
            q, k = self._normed(q, self.norm_q), self._normed(k, self.norm_k)
        if isinstance(self.position, QueriesKeysPosition):
            q, k = self.position(q, k, length.tokens[:, None])
        keys, values = (written(state[n], room, length.tokens, count, new, reuse) for n, new in (("k", k), ("v", v)))
        if count is not None and self.plain:  # every row looks at all places in use, in whichever order they lie
            used = min(count + 1, room)
            k, v = (cache[:, :, :used].to(x.dtype) for cache in (keys, values))
            y = attend(q, k, v, pattern=everywhere)
        else:
            used = ring.held(room, length.after(1, 1))
            k, v = (cache[:, :, :used].to(x.dtype) for cache in (keys, values))
            then = ring.times(room, length.tokens + 1)[:, :used]
            q, scores = self.scored(q, used - 1, alone=True)
            y = attend(q, k, v, query_time=length.tokens[:, None], key_time=then, **scores)
        y = y.flatten(1)
        return self.w_out(y if self.w_gate is None else y * torch.sigmoid(self.w_gate(x))), {"k": keys, "v": values}

    @override
    def views(self, x: Stream) -> list[View]:
        q, k, _ = self.projected(x[:1])
        q, scores = self.scored(q, self._reach(x.shape[1]) - 1)
        return of_heads(weights(q, k, pattern=banded(self.context), **scores)[0])

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        distances = self._reach(span.T) - (self._reach(span.T - 1) if span.per == "token" else 0)
        return self._priced(span, span.terms(self.context), distances)

    def _reach(self, T: int) -> int:
        return T if self.context is None else min(T, self.context)

    def _pattern(self, T: int) -> Pattern:
        return causal if self.context is None or self.context >= T else banded(self.context)

    def _extended(self, state: State, k: Tensor, v: Tensor, lengths: Tensor | None) -> Entries:
        size = state["k"].shape[2]
        room = self._room(ring.held(size, length_of(state)) + k.shape[2], size)
        return {name: extended(state[name], room, state["length"], new, lengths) for name, new in (("k", k), ("v", v))}

    def _room(self, needed: int, already: int = 0) -> int:
        return max(already, self.least, needed if self.context is None else min(needed, self.context))


def extended(cache: Tensor, room: int, length: Tensor, new: Tensor, lengths: Tensor | None) -> Tensor:
    """The cache (B, G, C, K) with `room` places, after each row read new (B, G, T, K), or its first `lengths` (B,)."""
    G = cache.shape[1]
    of_heads = None if lengths is None else lengths.repeat_interleave(G)
    grown = ring.grow(cache.flatten(0, 1), room)
    return ring.write(grown, length.repeat_interleave(G), new.flatten(0, 1), of_heads).unflatten(0, (-1, G))


def written(cache: Tensor, room: int, length: Tensor, count: int | None, new: Tensor, reuse: bool) -> Tensor:
    """The cache with `room` places and one more token (B, G, 1, K); with `reuse` it is written where it has room.

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


@final
class BidirectionalAttention(Heads, BidirectionalMixer):
    """Multi-head self-attention of every token over its whole row, or over those less than `reach` tokens away.

    The sums of the equation run over these j instead of j ≤ i.
    """

    traits = Traits(causal="never", streams=False, state="none")

    def __init__(self, config: "AttentionConfig", layer: Layer) -> None:
        super().__init__(config, layer)
        reaches = [reach for reach in (layer.context, config.window) if reach is not None]
        self.reach = min(reaches, default=None)

    @override
    def read(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        q, k, v = self.projected(x)
        time = None
        if lengths is not None:
            place = torch.arange(x.shape[1], device=x.device)
            time = torch.where(place < lengths[:, None], place, -1)  # no query looks at a negative time
        far = self._far(x.shape[1])
        q, scores = self.scored(q, far, far)
        y = attend(q, k, v, pattern=self._pattern(x.shape[1]), query_time=time, key_time=time, **scores)
        return self.out(y, x)

    @override
    def views(self, x: Stream) -> list[View]:
        q, k, _ = self.projected(x[:1])
        far = self._far(x.shape[1])
        q, scores = self.scored(q, far, far)
        return of_heads(weights(q, k, pattern=self._pattern(x.shape[1]), **scores)[0])

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self._priced(span, span.terms_around(self.reach), 2 * self._far(span.T) + 1)

    def _far(self, T: int) -> int:
        return max(0, (T if self.reach is None else min(T, self.reach)) - 1)

    def _pattern(self, T: int) -> Pattern:
        return everywhere if self.reach is None or self.reach >= T else around(self.reach)


@register
class AttentionConfig(MixerConfig):
    """Multi-head self-attention, causal or bidirectional."""

    kind: Literal["attention"] = "attention"
    heads: int = Field(4, ge=1, description="heads; divides dim (the paper compares 1 to 128 and settles on 32)")
    window: int | None = Field(None, ge=1, description="tokens looked back on, itself included; unset, the context")
    kv_heads: int | None = Field(None, ge=1, description="heads of keys and values; divides heads; unset, as many")
    bias: Literal["none", "qkv", "all"] = Field(
        "none",
        description="biases: of no projection, of queries, keys and values (Qwen2), or of the output too (GPT-2)",
    )
    qk_norm: Literal["none", "heads", "all"] = Field(
        "none", description="queries and keys over their root mean square: of each head (Qwen3), or of all (OLMo 2)"
    )
    scale: float | None = Field(None, gt=0, description="scores are multiplied by it; unset, 1/√width; T5 has 1")
    softcap: float | None = Field(None, gt=0, description="c of z → c tanh(z/c), which caps scores (Gemma 2)")
    sinks: bool = Field(False, description="a learned score per head for reading nothing (gpt-oss)")
    output_gate: bool = Field(False, description="what the heads read passes a gate of the token's (Qwen3-Next)")
    position: AnyPosition | None = Field(None, description="what tells where a token is; unset, the model's position")
    pattern: PatternName = Field("all", description="keys of a query: all, or a sparse pattern; local needs a window")
    per_head: PatternNames | None = Field(None, description="a pattern for each head, in place of one for all")
    length: int = Field(128, ge=1, description="stride of the strided pattern, segment of the fixed one")
    summary: int = Field(8, ge=1, description="tokens at the end of a segment that later ones look at (fixed)")
    traits: ClassVar = replace(TRAITS, causal="either")
    later: ClassVar = (
        *("window", "kv_heads", "bias", "qk_norm", "scale", "softcap", "sinks", "output_gate", "position"),
        *("pattern", "per_head", "length", "summary"),
    )
    examples: ClassVar = (
        {"heads": 1},
        {"heads": 2},
        {"heads": 8},
        {"heads": 2, "window": 3},
        {"heads": 4, "kv_heads": 2, "bias": "all"},
        {"kv_heads": 2, "qk_norm": "heads", "softcap": 20.0, "sinks": True, "output_gate": True, "position": "alibi"},
        {"heads": 2, "per_head": ["local", "all"], "window": 3},
    )

    @field_validator("position", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("position")
    @classmethod
    def _acts(cls, value: PositionConfig | None) -> PositionConfig | None:
        if value is not None and value.place is not None and value.place not in PLACES:
            raise ValueError(
                f"{value.kind} positions act on the {value.place} of a model, and attention has no place for them: "
                "choose them as model.position"
            )
        return value

    @model_validator(mode="after")
    def _grouped(self) -> "AttentionConfig":
        if self.kv_heads is not None and self.heads % self.kv_heads:
            divisors = ", ".join(str(n) for n in range(1, self.heads + 1) if self.heads % n == 0)
            raise ValueError(
                f"heads {self.heads} are not divisible by kv_heads {self.kv_heads}: choose from {divisors}"
            )
        return self

    @property
    def plain(self) -> bool:
        """Whether nothing is done to scores, positions aside."""
        return self.scale is None and self.softcap is None and not self.sinks

    @property
    def patterns(self) -> tuple[PatternName, ...]:
        """The name of each head's pattern."""
        return (self.pattern,) * self.heads if self.per_head is None else self.per_head

    @model_validator(mode="after")
    def _covered(self) -> "AttentionConfig":
        if len(self.patterns) != self.heads:
            raise ValueError(f"per_head covers {len(self.patterns)} of {self.heads} heads: list one for each head")
        if "local" in self.patterns and self.window is None:
            raise ValueError("the local pattern needs a window: set window to the tokens that a token looks back on")
        if set(self.patterns) != {"all"}:
            self._require_without_pattern()
        return self

    def _require_without_pattern(self) -> None:
        """Raises ValueError for settings that sparse patterns do not go with."""
        unset = {"qk_norm": "none", "scale": None, "softcap": None, "sinks": False, "output_gate": False}
        for name, value in unset.items():
            if getattr(self, name) != value:
                raise ValueError(f"sparse patterns do not go with {name}: leave out {name}, or pattern and per_head")
        if self.position is not None and self.position.place not in (None, "queries_keys"):
            raise ValueError(f"sparse patterns do not go with {self.position.kind} positions: use rotary or none")

    @override
    def make(self, layer: Layer) -> Mixer:
        if set(self.patterns) != {"all"}:
            from seqloom.mixers.patterned import named  # which stands on this file

            return named(self, layer)
        return Attention(self, layer) if layer.causal else BidirectionalAttention(self, layer)

    @property
    @override
    def places(self) -> frozenset[Place]:
        """None where it has a position of its own; of sparse patterns only queries and keys."""
        if self.position is not None:
            return frozenset()
        return PLACES if set(self.patterns) == {"all"} else frozenset({"queries_keys"})

    def acting(self, position: PositionConfig | None) -> PositionConfig | None:
        """Its own position, or the given one of the model; None where there is none."""
        acting = position if self.position is None else self.position
        return None if acting is None or acting.place is None else acting

    def sizes(self, layer: Layer) -> tuple[int, int | None, int, int, bool]:
        """What a position is built for."""
        return layer.dim // self.heads, layer.context, self.heads, self.kv_heads or self.heads, layer.causal

    @override
    def shared(self, layer: Layer) -> nn.Module | None:
        """A position that all layers have together, such as T5's table."""
        position = self.acting(layer.position)
        return position.build(*self.sizes(layer)) if position is not None and position.shared else None
