"""Routing Transformer: attention among the tokens that are near the same centroid, which k-means moves in training.

    q = norm(x W_qk),   v = x W_v                                H heads of width K = D/H; no biases; k = q
    c_i = argmax_c q_i · μ_c                                     n centroids per head, of length 1
    y_i = Σ_{j ∈ P(i)} e^{q_i · q_j / √K} v_j / Σ_{j ∈ P(i)} e^{q_i · q_j / √K},      out = concat_h(y) W_out
    μ_c ← λ μ_c + (1 - λ) mean of q_i / √K over c_i = c,         divided by its norm, after each step of training

norm is layer normalization without gain and bias: q has length √K. P(i) are i and the w latest tokens before it in its
cluster. With `choice: text`, as in the paper, clusters are balanced: each takes the ⌈T/n⌉ tokens of the largest q ·
μ_c, and a token attends to the j ≤ i of its clusters. It may be in several clusters, or in none, where its output is 0.
The weights are the same. Later tokens compete for the places of a cluster, so this form reads whole texts only: with 8
clusters, if the second half of 128 random tokens is replaced, 87% of the outputs of the first half change, by 36% of
their norm (a test checks this).

`local_heads` heads attend to the token itself and the w latest tokens before it, whatever their clusters; in the layers
before the last `layers` all heads are local. In the bidirectional form they attend to all tokens of their own block of
w tokens and of the block before it. With a `context` L, no token attends to one L or more tokens away.

Code: n is `clusters`, w is `window`, λ is `decay`.

Source: Roy et al., Routing Transformer, arXiv:2003.05997, section 4 and Algorithm 1. Half of the heads local, routing
in the last two layers: its Table 4, which seed 002 reports as best. Ours: `choice: past`; scores over √K; the mean of a
cluster where the paper adds its sum, and lengths of 1; a token of several clusters has one softmax over all of them;
local heads also have one vector for queries and keys.
"""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm, normalize
from typing_extensions import override

from seqloom.core.cost import Cost, Span, layernorm
from seqloom.core.extras import Extras
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.rest import in_training
from seqloom.core.shapes import Keep, Stream
from seqloom.core.state import State
from seqloom.mixers.bucketed import AHEAD, PAST, WHOLE, PastBuckets, SharedHeads, TextBuckets
from seqloom.ops.bucketing import Rule, attend, balance_clusters, by_bucket
from seqloom.ops.bucketing.choices import make_choice
from seqloom.ops.bucketing.reference import clustered_price, price, scattered_price


class Clusters(SharedHeads, ABC):
    """What both forms share: the centroids μ (H, n, K) of all heads but the first `local` ones."""

    centroids: Tensor

    def __init__(self, config: "RoutingConfig", layer: Layer) -> None:
        super().__init__(layer, config.heads)
        self.config, self.rule, self.rounds = config, config.rule(layer), 1
        self.local = config.local(layer)
        self.count = config.count(layer)
        centroids = normalize(torch.randn(self.heads - self.local, self.count, self.K), dim=-1)
        self.register_buffer("centroids", centroids)

    @override
    def project(self, x: Stream) -> tuple[Tensor, Tensor]:
        q, v = super().project(x)
        return layer_norm(q, (self.K,)), v

    @override
    def keys(self, q: Tensor) -> Tensor:
        return q / self.K**0.5

    def scores(self, q: Tensor) -> Tensor:
        """q · μ (B, H, T, n) of the heads that are routed."""
        return q[:, self.local :] @ self.centroids.to(q.dtype).mT

    def buckets(self, q: Tensor) -> Tensor:
        """The cluster (B, H, 1, T) of each token; 0 in local heads."""
        routed = self.scores(q.detach()).argmax(-1)
        local = routed.new_zeros(len(q), self.local, q.shape[2])
        return torch.cat([local, routed], 1)[:, :, None]

    @override
    def forward_with_extras(self, x: Stream, keep: Keep | None = None) -> tuple[Stream, Extras]:
        return self(x, keep), self._cluster_sums(x, keep) if in_training(self) else Extras()

    @override
    def extend_with_extras(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State, Extras]:
        return *self.extend(x, state, keep), self._cluster_sums(x, keep) if in_training(self) else Extras()

    @torch.no_grad()
    def _cluster_sums(self, x: Stream, keep: Keep | None) -> Extras:
        """The sums (H, n, K) of the keys nearest to each centroid, and their counts (H, n)."""
        q = self.project(x)[0]
        clusters = torch.arange(self.count, device=q.device)  # one_hot would read the largest number from the device
        nearest = (self.scores(q).argmax(-1, keepdim=True) == clusters).to(q.dtype)  # (B, H, T, n)
        if keep is not None:
            nearest = nearest * keep[:, None, :, None]
            q = torch.where(keep[:, None, :, None], q, 0.0)
        sums = torch.einsum("bhtn,bhtk->hnk", nearest, self.keys(q[:, self.local :]))
        return Extras(statistics={"sums": sums, "counts": nearest.sum((0, 2))})

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Moves each centroid that was the nearest one of some token."""
        if "sums" not in statistics:
            return
        counts, decay = statistics["counts"][..., None], self.config.decay
        means = statistics["sums"] / counts.clamp(min=1)
        moved = normalize(decay * self.centroids + (1 - decay) * means.to(self.centroids.dtype), dim=-1)
        self.centroids.copy_(torch.where(counts > 0, moved, self.centroids))

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n, routed, clusters = span.rows, span.rows * (self.heads - self.local), self.count
        terms = self.rule.terms(span.T) - (self.rule.terms(span.T - 1) if span.per == "token" else 0)
        scaled = Cost(div=n * self.dim, path=("division",)).parallel()
        norm = layernorm(n * self.heads, self.K, gain=False, bias=False)
        assignment = clustered_price(routed, self.K, clusters, routed * (clusters - 1))
        attention = price(n * self.heads, self.heads * terms, self.K, self.K)
        return self.w_qk, norm, scaled, assignment, attention, self.w_out


@final
class PastRouting(Clusters, PastBuckets):
    """Attention to the latest tokens of the nearest centroid."""


@final
class Routing(Clusters, TextBuckets):
    """Attention inside balanced clusters of the whole text, causal or bidirectional."""

    def __init__(self, config: "RoutingConfig", layer: Layer) -> None:
        super().__init__(config, layer)
        self.traits = AHEAD if layer.causal else WHOLE

    @override
    def read_heads(self, q: Tensor, v: Tensor, time: Tensor) -> Tensor:
        k, L, outputs = self.keys(q), self.local, []
        if L:
            order = by_bucket(time.new_zeros(len(q), L, 1, q.shape[2]), time)
            outputs.append(attend(q[:, :L], k[:, :L], v[:, :L], time, order, self.rule))
        if self.heads > L:
            order = make_choice(lambda: balance_clusters(self.scores(q.detach()), time))
            outputs.append(attend(q[:, L:], k[:, L:], v[:, L:], time, order, self._cluster_rule(order.tokens.shape[3])))
        return torch.cat(outputs, 1)

    def _cluster_rule(self, window: int) -> Rule:
        """The rule inside a cluster of `window` tokens."""
        return replace(self.rule, chunk=window, latest=None, back=False)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        T, L, clusters = span.T, self.local, self.count
        routed, slots = T * (self.heads - L), clusters * -(-T // clusters)
        scaled = Cost(div=T * self.dim, path=("division",)).parallel()
        norm = layernorm(T * self.heads, self.K, gain=False, bias=False)
        assignment = clustered_price(routed, self.K, clusters, 2 * routed * clusters)
        terms = (self.heads - L) * slots * -(-T // clusters)
        attention = scattered_price(routed, terms, self.K, self.K)
        local = price(T * L, L * self.rule.terms(T), self.K, self.K).parallel()
        if self.heads == L:
            return self.w_qk, norm, scaled, local, self.w_out
        return self.w_qk, norm, scaled, assignment, attention, local, self.w_out


@register
class RoutingConfig(MixerConfig):
    """Attention inside clusters of tokens."""

    kind: Literal["routing"] = "routing"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    clusters: int | None = Field(None, ge=1, description="centroids per head; unset: √context (or 32)")
    window: int = Field(
        64, ge=1, description="tokens before it in its cluster that a token attends to; in local heads, of all tokens"
    )
    local_heads: int = Field(0, ge=0, description="heads with local attention, without clusters")
    layers: int | None = Field(
        None,
        ge=1,
        description="number of last layers of this kind with routing; the layers before have only local heads; "
        "unset: all",
    )
    choice: Literal["past", "text"] = Field(
        "past",
        description="whether clusters depend on past tokens only, or are balanced over the whole text (the paper)",
    )
    decay: float = Field(
        0.999, ge=0, lt=1, description="decay rate of the moving average of the centroids, per training step"
    )
    traits: ClassVar = replace(PAST, causal="either")
    examples: ClassVar = (
        {"heads": 2, "clusters": 3, "window": 2},
        {"heads": 2, "clusters": 2, "choice": "text"},
        {"heads": 2, "clusters": 2, "window": 2, "local_heads": 1, "choice": "text"},
    )

    def count(self, layer: Layer) -> int:
        """The number of centroids of a head."""
        return self.clusters or (32 if layer.context is None else max(1, round(layer.context**0.5)))

    def local(self, layer: Layer) -> int:
        """The number of local heads of a layer."""
        has_routing = self.layers is None or layer.number >= layer.depth - self.layers
        return self.local_heads if has_routing else self.heads

    def rule(self, layer: Layer) -> Rule:
        """Which tokens of its cluster, or of all, a token attends to."""
        return Rule(
            self.window,
            causal=layer.causal,
            latest=self.window if layer.causal else None,
            context=layer.context,
            alone=False,
        )

    @override
    def distinct(self, depth: int) -> int:
        return depth if self.layers is not None else 1  # the last ones differ from the first

    @override
    def make(self, layer: Layer) -> Mixer:
        """Raises ValueError for more clusters than tokens, or more local heads than heads."""
        if layer.context is not None and self.count(layer) > layer.context:
            raise ValueError(
                f"{self.count(layer)} clusters are more than the {layer.context} tokens: set fewer clusters"
            )
        if self.local_heads > self.heads:
            raise ValueError(f"{self.local_heads} local heads are more than all {self.heads}: set fewer local_heads")
        return PastRouting(self, layer) if self.choice == "past" and layer.causal else Routing(self, layer)
