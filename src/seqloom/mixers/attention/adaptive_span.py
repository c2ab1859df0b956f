"""Adaptive span: attention whose heads learn how far they look back.

    q = x W_q,   k = x W_k,   v = x W_v                     H heads of width K = D/H; no biases
    s = S clip(a, 0, 1)                                     per head; a learned, S the largest span; or, `dynamic`,
    s_i = S σ(w · x_i + b)                                  per head and token
    m_ij = clip((R + s_i - (i-j)) / R, 0, 1),   a_ij = m_ij e^{q_i · k_j / √K} / Σ_{j'≤i} m_ij' e^{q_i · k_j' / √K}
    out = concat_h(Σ_{j≤i} a_ij v_j) W_out

In training the mean of s is a loss `span` of weight λ. Keys further than R + s, of the largest s of all heads, are not
computed; with dynamic spans, those further than R + S. With a `context` L, a token attends to the L latest tokens at
most. Spans are initialized to 0; after each step of training a is clipped.

Code: R is `ramp`, S is `span`, a is `extent`, λ is `penalty`.

Source: Sukhbaatar et al., Adaptive Attention Span in Transformers, arXiv:1905.07799, section 2.2 (S 8,192, R 32,
λ 5·10⁻⁷ to 2·10⁻⁶ in the authors' scripts). The paper adds a learned vector per distance to keys: here the model's
position acts (rotary, or none). There a token does not attend to itself.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.divided import whole
from seqloom.core.extras import Extras
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.position import Place
from seqloom.core.rest import in_training
from seqloom.core.shapes import Keep, Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View, of_heads
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.cached_heads import TRAITS, CachedHeads
from seqloom.mixers.patterned import PlainHeads, require_undecayed
from seqloom.ops.attention.adaptive_span import attend_spans
from seqloom.ops.attention.adaptive_span.reference import price
from seqloom.ops.past.cache import past_and_new

WINDOW = replace(TRAITS, state="window")


@final
class AdaptiveSpan(CachedHeads, CachingMixer):
    """Causal heads with learned spans. State: keys and values, a window of R + S or `context` of them."""

    traits = WINDOW

    extent: nn.Parameter | None
    """a (H,); None if spans are computed from tokens"""

    def __init__(self, config: "AdaptiveSpanConfig", layer: Layer) -> None:
        super().__init__(PlainHeads(heads=config.heads), layer)
        require_undecayed(self)
        self.settings, self.longest = config, config.longest(layer)
        self.max_slots = config.ramp + self.longest
        if layer.context is not None:
            self.max_slots = min(self.max_slots, layer.context)
        self.min_slots = self.max_slots
        self.extent = None if config.dynamic else nn.Parameter(torch.zeros(config.heads))
        self.w_span = Linear(layer.dim, config.heads) if config.dynamic else None

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        if self.extent is not None:
            nn.init.zeros_(self.extent)

    def spans(self, x: Stream) -> Tensor:
        """The spans in tokens: (B, H, T) if dynamic, else (1, H, 1)."""
        if self.w_span is not None:
            return self.longest * torch.sigmoid(self.w_span(x)).transpose(1, 2)
        assert self.extent is not None
        return (self.longest * self.extent.clamp(0, 1))[None, :, None]

    @property
    def window(self) -> int:
        """The number of latest keys whose scores are computed for a query: up to the largest span of all heads."""
        assert self.max_slots is not None
        if self.extent is None or torch.compiler.is_compiling() or self.extent.is_meta:
            return self.max_slots
        largest = max(min(max(extent, 0.0), 1.0) for extent in whole(self.extent).tolist())
        return min(self.max_slots, self.settings.ramp + math.ceil(self.longest * largest))

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        q, k, v = self.project(x, state["length"] if state else None)
        spans, R = self.spans(x), self.settings.ramp
        if state is None:
            return self.out(attend_spans(q, k, v, spans, R, self.window), x), {}
        past, entries = past_and_new(length_of(state), state, {"k": k, "v": v}, lengths, reuse)
        k, v = past.values
        # `self.window` reads the spans, for which a step on a GPU would wait
        window = self.max_slots if x.shape[1] == 1 and not x.is_cpu else self.window
        assert window is not None
        return self.out(attend_spans(q, k, v, spans, R, window, past.now, past.then), x), entries

    @override
    def forward_with_extras(self, x: Stream, keep: Keep | None = None) -> tuple[Stream, Extras]:
        return self(x, keep), self._span_loss(x, keep) if in_training(self) else Extras()

    @override
    def extend_with_extras(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State, Extras]:
        return *self.extend(x, state, keep), self._span_loss(x, keep) if in_training(self) else Extras()

    def _span_loss(self, x: Stream, keep: Keep | None) -> Extras:
        """The loss `span`: the mean span of all heads and kept tokens, in tokens."""
        spans = self.spans(x).mean(1)  # (B, T), or (1, 1)
        if self.extent is None and keep is not None:
            spans = torch.where(keep, spans, 0.0).sum() / keep.sum().clamp(min=1)
        return Extras(losses={"span": spans.mean()})

    @property
    @override
    def loss_weights(self) -> Mapping[str, float]:
        return {"span": self.settings.penalty}

    @property
    @override
    def uncaptured_reason(self) -> str:
        return "" if self.extent is None else "adaptive_span computes as many scores as its spans need by then"

    @override
    @torch.no_grad()
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Clips a to [0, 1]: outside of this range it would have no gradient."""
        if self.extent is not None:
            self.extent.clamp_(0, 1)

    @override
    def plots(self, x: Stream) -> list[View]:
        q, k, _ = self.project(x[:1])
        T, spans = x.shape[1], self.spans(x[:1])
        values = torch.eye(T, dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        weights = of_heads(attend_spans(q, k, values, spans, self.settings.ramp, self.window)[0])
        if self.extent is None:
            return [View("spans", "tokens that a head attends to", ("head", "token"), spans[0]), *weights]
        return [View("spans", "tokens that a head attends to", ("head",), spans[0, :, 0]), *weights]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        attention = price(span.rows, span.terms(self.window), self.dim, self.heads)
        H = self.heads
        if self.extent is None:
            spans = sigmoid(span.rows * H) + Cost(mul=span.rows * H)
        else:
            spans = Cost(mul=span.first * H, other=span.first * H)
        return self.w_qkv, self.position, spans.parallel(), attention, self.w_out


@register
class AdaptiveSpanConfig(MixerConfig):
    """Attention with a learned span per head."""

    kind: Literal["adaptive_span"] = "adaptive_span"
    heads: int = Field(4, ge=1, description="heads, each with its own span; divides dim")
    span: int | None = Field(None, ge=1, description="the largest span, in tokens; unset: the context (or 8192)")
    ramp: int = Field(32, ge=1, description="tokens over which the mask falls from 1 to 0 beyond the span")
    dynamic: bool = Field(False, description="whether the span is computed per token")
    penalty: float = Field(2e-6, ge=0, description="weight of the mean span, in tokens, in the loss")
    traits: ClassVar = WINDOW
    examples: ClassVar = (
        {"heads": 2, "span": 5, "ramp": 2},
        {"heads": 4, "span": 4, "ramp": 3, "dynamic": True},
        {"heads": 1, "ramp": 1},
    )

    def longest(self, layer: Layer) -> int:
        """The largest span S, in tokens."""
        return self.span or layer.context or 8192

    @property
    @override
    def places(self) -> frozenset[Place]:
        return frozenset({"queries_keys"})

    @override
    def make(self, layer: Layer) -> AdaptiveSpan:
        return AdaptiveSpan(self, layer)
