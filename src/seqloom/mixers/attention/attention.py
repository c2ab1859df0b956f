"""Multi-head self-attention: a token averages the values of tokens, weighted by products of its query and their keys.

    [q k v] = x W_qkv + b_qkv                 W_qkv = [W_q W_k W_v]; H heads of q, G of k and v, width K, D/H by default
    z_ij = q_i · k_j / √K,   a_ij = e^{z_ij} / Σ_{j'≤i} e^{z_ij'}     per head h of q, with head ⌊hG/H⌋ of k and v
    y = concat_h(Σ_{j≤i} a_ij v_j) W_out + b_out

By default G = H and there are no biases; a `width` K other than D/H is Qwen3's. Grouped queries (G < H, or G = 1:
multi-query) make the cache smaller. Queries and keys may be divided by their root mean square (`qk_norm`); scores may
have another `scale`, a `softcap` c, z ← c tanh(z/c), a `sink`, a learned score for attending to nothing, and a
`position`; and y may pass a gate, y ∘ σ(x W_g) (`output_gate`). With a `kernel` W > 1 each channel of q, k and v first
passes a convolution by its own taps, u_t ← Σ_{l<W} taps_l ∘ u_{t-l}.

With a `context` L, a token attends to the L latest tokens, itself included, which changes nothing for texts of up to L
tokens. A `window` is a smaller L, for local attention. The bidirectional form attends as far ahead as back.

Source: Vaswani et al., arXiv:1706.03762; the Extractor paper's Eq. 10-17; Ainslie et al., arXiv:2305.13245 (G < H) and
Shazeer, arXiv:1911.02150 (G = 1); the options as in Qwen3 and OLMo 2 (norms), Gemma 2 (cap), gpt-oss (sinks),
Qwen3-Next (gate) and Primer, arXiv:2109.08668 (convolution, there of 3). The Extractor paper has no texts of more than
L tokens, so the limit to the L latest is ours; seed 000 prints the sum of Eq. 14 to t, seed 003 and we to i.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.position import Place
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View, of_heads
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.mixers.cached_heads import TRAITS, CachedHeads
from seqloom.mixers.heads import PLACES, Heads
from seqloom.mixers.named_patterns import NamedPatterns
from seqloom.ops.attention import (
    Pattern,
    around,
    attend,
    band_pattern,
    cached,
    causal,
    everywhere,
    patterns,
    sparse,
    weights,
)
from seqloom.ops.attention.drawing import by_heads
from seqloom.ops.past import ring
from seqloom.ops.past.cache import Past, past_and_new


@final
class Attention(CachedHeads):
    """Causal multi-head self-attention over `dim` channels. State: keys and values, at most `context` of them.

    With a `window`, which is at most the context, the state has a fixed size: that of the window.
    """

    traits = TRAITS

    def __init__(self, config: "AttentionConfig", layer: Layer) -> None:
        super().__init__(config, layer)
        self.max_slots = layer.context
        if config.window is not None:
            self.max_slots = self.min_slots = min(config.window, layer.context or config.window)
            self.traits = replace(TRAITS, state="window")
        self._covers = _covers(config.window, layer.context)

    @property
    @override
    def same_as(self) -> str | None:
        return "attention" if self._covers else None

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        (q, k, v), convolved = self.project_and_convolve(x, state, lengths, reuse)
        if state is None:
            return self.out(self._whole(q, k, v), x), {}
        length, keys, values = length_of(state), state["k"], state["v"]
        if reuse and self.plain and cached.supports(q, k, v, keys, values):
            y = cached.attend(q, k, v, keys, values, length.tokens)
            return self.out(y, x), {"k": keys, "v": values, **convolved}
        past, entries = past_and_new(length, state, {"k": k, "v": v}, lengths, reuse)
        is_first = ring.count_filled(keys.shape[2], length) == 0
        y = self._whole(q, k, v) if is_first else self._over_past(q, past)
        return self.out(y, x), {**entries, **convolved}

    @override
    def plots(self, x: Stream) -> list[View]:
        (q, k, _), _ = self.project_and_convolve(x[:1])
        q, scores = self.change_scores(q, self._reach(x.shape[1]) - 1)
        return of_heads(weights(q, k, pattern=band_pattern(self.max_slots), **scores)[0])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        distances = self._reach(span.T) - (self._reach(span.T - 1) if span.per == "token" else 0)
        return self.price_with(span, span.terms(self.max_slots), distances)

    def _whole(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention over whole texts; with a window in tiles, so that scores outside of it are not computed."""
        T = q.shape[2]
        if self.plain and self.max_slots is not None and self.max_slots < T:
            return sparse.attend(q, k, v, [patterns.local(self.max_slots)] * self.heads)
        q, scores = self.change_scores(q, self._reach(T) - 1)
        return attend(q, k, v, pattern=self._pattern(T), **scores)

    def _over_past(self, q: Tensor, past: Past) -> Tensor:
        """Attention of a piece's queries over the cached keys and its own."""
        if past.all_before and self.plain:
            return attend(q, *past.values, pattern=everywhere)
        q, scores = self.change_scores(q, past.values[0].shape[2] - 1, alone=q.shape[2] == 1)
        pattern = band_pattern(self.max_slots)
        return attend(q, *past.values, pattern=pattern, query_time=past.now, key_time=past.then, **scores)

    def _reach(self, T: int) -> int:
        """The number of tokens that the last of T tokens attends to."""
        return T if self.max_slots is None else min(T, self.max_slots)

    def _pattern(self, T: int) -> Pattern:
        return causal if self.max_slots is None or self.max_slots >= T else band_pattern(self.max_slots)


def _covers(window: int | None, context: int | None) -> bool:
    """Whether there is a window that is as long as the context, so that it leaves nothing out."""
    return window is not None and context is not None and window >= context


@final
class BidirectionalAttention(Heads, BidirectionalMixer):
    """Multi-head self-attention of every token over its whole row, or over the tokens less than `reach` away.

    The sums of the equation run over these tokens j instead of j ≤ i.
    """

    traits = Traits(causal="never", streams=False, state="none")

    def __init__(self, config: "AttentionConfig", layer: Layer) -> None:
        super().__init__(config, layer)
        bounds = [reach for reach in (layer.context, config.window) if reach is not None]
        self.reach = min(bounds, default=None)
        self._covers = _covers(config.window, layer.context)

    @property
    @override
    def same_as(self) -> str | None:
        return "attention" if self._covers else None

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        (q, k, v), _ = self.project_and_convolve(x)
        T = x.shape[1]
        if self.plain and self.reach is not None and self.reach < T:  # in tiles, so that hidden scores are not computed
            return self.out(sparse.attend(q, k, v, [patterns.around(self.reach - 1)] * self.heads, lengths), x)
        time = None
        if lengths is not None:
            position = torch.arange(T, device=x.device)
            time = torch.where(position < lengths[:, None], position, -1)  # no query attends to a negative time
        distance = self._largest_distance(T)
        q, scores = self.change_scores(q, distance, distance)
        return self.out(attend(q, k, v, pattern=self._pattern(T), query_time=time, key_time=time, **scores), x)

    @override
    def plots(self, x: Stream) -> list[View]:
        (q, k, _), _ = self.project_and_convolve(x[:1])
        distance = self._largest_distance(x.shape[1])
        q, scores = self.change_scores(q, distance, distance)
        return of_heads(weights(q, k, pattern=self._pattern(x.shape[1]), **scores)[0])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self.price_with(span, span.terms_around(self.reach), 2 * self._largest_distance(span.T) + 1)

    def _largest_distance(self, T: int) -> int:
        """The largest distance between a query and a key that it attends to, in a text of T tokens."""
        return max(0, (T if self.reach is None else min(T, self.reach)) - 1)

    def _pattern(self, T: int) -> Pattern:
        return everywhere if self.reach is None or self.reach >= T else around(self.reach)


@register
class AttentionConfig(NamedPatterns, MixerConfig):
    """Multi-head self-attention, causal or bidirectional."""

    kind: Literal["attention"] = "attention"
    traits: ClassVar = replace(TRAITS, causal="either")
    later: ClassVar = (
        *("window", "kv_heads", "bias", "qk_norm", "scale", "softcap", "sinks", "output_gate", "position"),
        *("kernel", "pattern", "per_head", "length", "summary", "width", "qk_norm_eps"),
    )
    examples: ClassVar = (
        {"heads": 1},
        {"heads": 2},
        {"heads": 8},
        {"heads": 2, "window": 3},
        {"heads": 4, "kv_heads": 2, "bias": "all"},
        {"kv_heads": 2, "qk_norm": "heads", "softcap": 20.0, "sinks": True, "output_gate": True, "position": "alibi"},
        {"heads": 2, "per_head": ["local", "all"], "window": 3},
        {"heads": 2, "kv_heads": 1, "kernel": 3, "position": "rotary"},
        {"heads": 2, "kv_heads": 1, "width": 6, "qk_norm": "heads", "output_gate": True, "position": "rotary"},
    )
    width: int | None = Field(None, ge=1, description="channels of a head; unset: dim / heads (Qwen3 has 128)")

    drawings: ClassVar = (
        {"heads": 1, "pattern": "local", "window": 6},
        {"heads": 3, "per_head": ["local", "strided", "fixed"], "window": 6, "length": 5, "summary": 2},
    )

    @override
    def head_width(self, dim: int) -> int:
        return super().head_width(dim) if self.width is None else self.width

    @override
    def draw_pattern(self, T: int, causal: bool) -> dict[str, list[str]]:
        return by_heads(self.build_mixer(Layer(self.heads, None, causal)).patterns, T)

    @override
    def make(self, layer: Layer) -> Mixer:
        if self.sparse:
            return self.build_mixer(layer)
        return Attention(self, layer) if layer.causal else BidirectionalAttention(self, layer)

    @property
    @override
    def places(self) -> frozenset[Place]:
        """None if `position` is set here; only `queries_keys` with a sparse pattern."""
        if self.position is not None:
            return frozenset()
        return frozenset({"queries_keys"}) if self.sparse else PLACES

    @property
    @override
    def has_window(self) -> bool:
        return self.window is not None

    @override
    def with_window(self, window: int) -> "AttentionConfig | None":
        """None if no head has a pattern with a window."""
        windowed = not self.sparse or "local" in self.patterns
        return self.model_copy(update={"window": window}) if windowed else None

    @override
    def shared_module(self, layer: Layer) -> nn.Module | None:
        """The position that all layers share, such as T5's table, if there is one."""
        position = self.effective_position(layer.position)
        return position.build(*self.sizes(layer)) if position is not None and position.shared else None
