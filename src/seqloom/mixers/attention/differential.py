"""Differential attention: the output of one softmax attention less λ times that of a second one.

    version 1   q, k = x W_q, x W_k in 2H heads of width K = D/2H,   v = x W_v in H heads of width 2K
                λ = e^{λ_q1·λ_k1} - e^{λ_q2·λ_k2} + λ_0,   λ_0 = 0.8 - 0.6 e^{-0.3 l} in layer l from 0
                y_h = (softmax(q_2h k_2h) - λ softmax(q_{2h+1} k_{2h+1})) v_h
                out = (norm(y) (1 - λ_0)) W_o           norm(y) = y / √(mean of y² + 1e-5) ∘ gain, per head
    version 2   q = x W_q in 2H heads,   k, v = x W_k, x W_v in H heads, all of width K = D/H
                λ = σ(x W_λ), one for each token and head
                y_h = (softmax(q_2h k_h) - λ_h softmax(q_{2h+1} k_h)) v_h,   out = y W_o

Scores are divided by √K. With a `context` L, a token attends to the L latest tokens, itself included. Before
training λ_q1, λ_k1, λ_q2, λ_k2 are N(0, 0.01); they are not decayed.

Source: Ye et al., Differential Transformer, arXiv:2410.05258, section 2, and the authors' programs (unilm); version 2
is published as a program only. l counts the layers of this kind. transformers' DiffLlama pairs head h with h + H, and
its norm has no gain.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, cast, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.position import Place, QueriesKeysPosition
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View, of_heads
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.ops.attention import attend, band_pattern, weights
from seqloom.ops.attention.reference import decay_price, price
from seqloom.ops.past.cache import past_and_new

TRAITS = Traits(causal="always", streams=True, state="grows")


@final
class Differential(CachingMixer):
    """Differential attention over `dim` channels. State: keys and values, at most `context` of them."""

    traits = TRAITS

    def __init__(self, config: "DifferentialConfig", layer: Layer) -> None:
        super().__init__()
        D, H, version_1 = layer.dim, config.heads, config.version == 1
        if D % (2 * H if version_1 else H):
            pairs = f"{H} pairs of heads" if version_1 else f"heads {H}"
            raise ValueError(f"dim {D} is not divisible by {pairs}: choose heads that divide dim{' / 2' * version_1}")
        self.dim, self.heads, self.context = D, H, layer.context
        self.K, self.V, self.key_heads = (D // (2 * H), D // H, 2 * H) if version_1 else (D // H, D // H, H)
        self.w_q = Linear(D, 2 * H * self.K, bias=False)
        self.w_k, self.w_v, self.w_o = (Linear(D, D, bias=False) for _ in range(3))
        self.vectors = nn.Parameter(torch.empty(2, 2, self.K)) if version_1 else None  # [softmax, λ_q or λ_k, channel]
        self.w_share = None if version_1 else Linear(D, H, bias=False)
        self.initial_share = 0.8 - 0.6 * math.exp(-0.3 * layer.number)
        self.norm = HeadNorm(H, self.V) if version_1 else None
        position = layer.position
        built = None if position is None else position.build(self.K, layer.context, 2 * H, self.key_heads)
        self.position = cast(QueriesKeysPosition | None, built)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """The vectors of λ are drawn again too."""
        super().reset(std)
        self._initialize()

    @override
    def rebuild(self) -> None:
        if self.position is not None:
            self.position.rebuild(self.device)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        if self.vectors is None:
            return super().param_groups()
        others = [parameter for parameter in self.parameters() if parameter is not self.vectors]
        return [{"params": others}, {"params": [self.vectors], "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        sizes = {"k": (self.key_heads, 0, self.K), "v": (self.heads, 0, self.V)}
        return {name: StateEntry(size, grows=True, axis=1, max_slots=self.context) for name, size in sizes.items()}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        q, k, v = self._project(x, state["length"] if state else None)
        if state is None:
            return self._output(x, q, k, v, self._reach(x.shape[1])), {}
        past, entries = past_and_new(length_of(state), state, {"k": k, "v": v}, lengths, reuse)
        k, v = past.values
        return self._output(x, q, k, v, self.context, past.now, past.then), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        q, k, _ = self._project(x[:1])
        a = weights(q, k, pattern=band_pattern(self._reach(x.shape[1])), decay=self._decay())[0]
        return of_heads(a[0::2] - self._share(x[:1])[0] * a[1::2])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        rows, terms, n = span.rows, span.terms(self.context), span.rows * self.dim
        scores = price(rows, terms, 2 * self.heads * self.K, 2 * self.heads)
        extra = 2 * self.heads * (self.V - self.K)  # `price` counts values as wide as keys
        scores += Cost(mul=terms * extra, add=(terms - rows) * extra)
        difference = Cost(mul=n, add=n, path=("multiplication", "addition"))
        decay_cost = None if self._decay() is None else decay_price(rows, self.K, 2 * self.heads + self.key_heads)
        if self.norm is None:
            return self.w_q, decay_cost, scores, sigmoid(rows * self.heads).parallel(), difference, self.w_o
        share = rows * Cost(mul=2 * self.K, add=2 * (self.K - 1) + 2, exp=2)
        scaled = Cost(mul=n, path=("multiplication",))
        return self.w_q, decay_cost, scores, share, difference, self.norm, scaled, self.w_o

    def _project(self, x: Stream, tokens_before: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, 2H, T, K), keys and values of tokens that follow `tokens_before` (B,) tokens; None is 0."""
        sizes = ((self.w_q, self.K), (self.w_k, self.K), (self.w_v, self.V))
        q, k, v = (w(x).unflatten(-1, (-1, width)).transpose(1, 2) for w, width in sizes)
        if self.position is not None:
            time = torch.arange(x.shape[1], device=x.device)
            q, k = self.position(q, k, time if tokens_before is None else tokens_before[:, None] + time)
        return q, k, v

    def _output(
        self,
        x: Stream,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        window: int | None,
        now: Tensor | None = None,
        then: Tensor | None = None,
    ) -> Stream:
        """The output for x (B, T, D), whose queries q at times `now` attend to k and v at times `then`."""
        if self.key_heads > self.heads:
            v = v.repeat_interleave(2, 1)
        heads = attend(q, k, v, pattern=band_pattern(window), query_time=now, key_time=then, decay=self._decay())
        y = heads[:, 0::2] - self._share(x) * heads[:, 1::2]  # (B, H, T, V)
        if self.norm is not None:
            return self.w_o(self.norm(y) * (1 - self.initial_share))
        return self.w_o(y.transpose(1, 2).flatten(2))

    def _share(self, x: Stream) -> Tensor:
        """λ: (T, 1), the same at each token, in version 1; (B, H, T, 1) in version 2."""
        if self.w_share is not None:
            return torch.sigmoid(self.w_share(x)).transpose(1, 2)[..., None]
        assert self.vectors is not None
        pairs = self.vectors.expand(x.shape[1], -1, -1, -1).unbind(1)  # λ_q and λ_k (T, 2, K) of each softmax
        first, second = ((pair[:, 0] * pair[:, 1]).sum(-1, keepdim=True).exp() for pair in pairs)
        return first - second + self.initial_share

    def _decay(self) -> Tensor | None:
        return None if self.position is None else self.position.decay

    def _reach(self, T: int) -> int | None:
        """The window for a text of T tokens; None if the context covers it."""
        return None if self.context is None or self.context >= T else self.context

    @torch.no_grad()
    def _initialize(self) -> None:
        if self.vectors is not None:
            nn.init.normal_(self.vectors, std=0.1)


@register
class DifferentialConfig(MixerConfig):
    """Differential attention: the difference of two softmax attentions."""

    kind: Literal["differential"] = "differential"
    heads: int = Field(4, ge=1, description="pairs of heads of queries; divides dim, in version 1 dim / 2")
    version: Literal[1, 2] = Field(
        1, description="1: one λ per layer, and a norm per head; 2: one λ per token and head"
    )
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 2, "version": 2}, {"heads": 1, "version": 2})

    @property
    @override
    def places(self) -> frozenset[Place]:
        return frozenset({"queries_keys"})

    @override
    def make(self, layer: Layer) -> Differential:
        return Differential(self, layer)
