"""Reformer: attention among the tokens that a random hash puts into one bucket.

    q = x W_qk,   k = q / |q|,   v = x W_v                      H heads of width K = D/H; no biases
    b_r = argmax [q R_r; -q R_r]                                the bucket of q in round r; R_r (K, n/2), drawn, fixed
    y_i = Σ_r Σ_{j ∈ P_r(i)} e^{q_i · k_j} v_j / Σ_r Σ_{j ∈ P_r(i)} e^{q_i · k_j},    out = concat_h(y) W_out

P_r(i) are the m latest tokens before i in its bucket; i itself only where it has no other key in any round. With
`choice: text`, as in the paper, tokens sorted by bucket and time are cut into chunks of m, which attend to themselves
and to the one before: P_r(i) are the j ≤ i of its bucket in both. The weights are the same. Later tokens influence
where chunks are cut, so this form reads whole texts only: if the second half of 128 random tokens is replaced, 7% of
the outputs of the first half change, by 2% of their norm (2 rounds, chunks of 8; a test checks this).

In that form rounds are sorted `apart`, or `together`: all rounds follow each other in one order, which is cut into
chunks; the chunk before the first is the last. `across_buckets` lets a token attend to other buckets inside both
chunks, too; with rounds together this is the layer of `transformers`.

Code: n is `buckets`, m is `bucket`.

Source: Kitaev et al., Reformer, arXiv:2001.04451, section 2. Keys are not scaled further, as in the authors' program; a
pair that is in several rounds counts as often, as there. The paper draws R for each pass; here it is drawn again every
`redraw_every` steps of training and fixed in between. `choice: past`, the default, is ours. Seed 004's Eq. 4-5 have
queries and keys of their own, and both seeds leave out the rounds and how they are joined.
"""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.mixers.bucketed import AHEAD, PAST, WHOLE, PastBuckets, SharedHeads, TextBuckets
from seqloom.ops.bucketing import Rule, attend, by_bucket
from seqloom.ops.bucketing.choices import make_choice
from seqloom.ops.bucketing.reference import hashed_price, price, unit_price
from seqloom.ops.random_features import draws

AS_TRANSFORMERS = {"choice": "text", "rounds_sorted": "together", "across_buckets": True}
"""the settings of the layer of `transformers`"""


class LSH(SharedHeads, ABC):
    """What both forms share: the directions (H, rounds n/2, K), drawn from a seed and drawn again in training."""

    directions: Tensor
    seed: Tensor

    def __init__(self, config: "ReformerConfig", layer: Layer) -> None:
        super().__init__(layer, config.heads)
        self.config, self.rounds, self.rule = config, config.rounds, config.rule(layer)
        self.count = config.count(layer)
        self.register_buffer("directions", torch.empty(self.heads, self.rounds * self.count // 2, self.K))
        self.register_buffer("seed", draws.fresh().to(self.directions.device))
        draws.redraw(self.directions, self.seed, draws.draw_independent)

    def buckets(self, q: Tensor) -> Tensor:
        """The buckets (B, H, rounds, T) of q (B, H, T, K)."""
        dtype = torch.promote_types(q.dtype, torch.float32)
        projected = (q.to(dtype) @ self.directions.to(dtype).mT).unflatten(-1, (self.rounds, -1))
        largest, index_of_largest = projected.max(-1)
        smallest, index_of_smallest = projected.min(-1)
        # the argmax of [projected; -projected]
        bucket = torch.where(largest >= -smallest, index_of_largest, index_of_smallest + self.count // 2)
        return bucket.transpose(2, 3)

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """New directions every `redraw_every` steps, from the seed in the checkpoint."""
        if self.config.redraw_every and step % self.config.redraw_every == 0:
            draws.redraw(self.directions, self.seed, draws.draw_independent)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n, R = span.rows * self.heads, self.rounds
        orders, copies = (1, R) if self.config.rounds_sorted == "together" else (R, 1)  # of each token in an order
        terms = self.rule.terms(copies * span.T) - (self.rule.terms(span.T - 1) if span.per == "token" else 0)
        hashed = hashed_price(n, self.K, R, self.count)
        attention = price(n, self.heads * orders * terms, self.K, self.K)
        return self.w_qk, unit_price(n, self.K).parallel(), hashed, attention, self.w_out


@final
class Reformer(LSH, TextBuckets):
    """LSH attention whose chunks are cut by the whole text, causal or bidirectional."""

    def __init__(self, config: "ReformerConfig", layer: Layer) -> None:
        super().__init__(config, layer)
        self.traits = AHEAD if layer.causal else WHOLE

    @override
    def read_heads(self, q: Tensor, v: Tensor, time: Tensor) -> Tensor:
        together = self.config.rounds_sorted == "together"
        order = make_choice(lambda: by_bucket(self.buckets(q), time, together))
        return attend(q, self.keys(q), v, time, order, self.rule)


@final
class PastReformer(LSH, PastBuckets):
    """LSH attention over the latest tokens of each bucket."""


@register
class ReformerConfig(MixerConfig):
    """Attention among tokens of equal hash."""

    kind: Literal["reformer"] = "reformer"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    bucket: int = Field(32, ge=1, description="tokens of a chunk; a token attends to its chunk and the one before")
    buckets: int | None = Field(
        None, ge=2, description="buckets per round, an even number; unset: twice the number of chunks in the context"
    )
    rounds: int = Field(4, ge=1, description="rounds of hashing; more rounds find more of the nearest keys")
    rounds_sorted: Literal["apart", "together"] = Field(
        "apart", description="whether tokens are sorted for each round, or once for all"
    )
    across_buckets: bool = Field(
        False, description="whether a token also attends to other buckets inside its two chunks"
    )
    choice: Literal["past", "text"] = Field(
        "past", description="whether the keys of a token depend on past tokens only, or on the whole text (the paper)"
    )
    redraw_every: int = Field(
        1, ge=0, description="training steps between draws of the random directions; 0: never redrawn"
    )
    traits: ClassVar = replace(PAST, causal="either")
    examples: ClassVar = (
        {"heads": 2, "bucket": 2, "buckets": 4, "rounds": 2},
        {"heads": 2, "bucket": 2, "buckets": 4, "rounds": 2, "choice": "text"},
        {**AS_TRANSFORMERS, "heads": 1, "bucket": 3, "rounds": 2, "redraw_every": 2},
    )

    @model_validator(mode="after")
    def _fits(self) -> "ReformerConfig":
        if self.buckets is not None and self.buckets % 2:
            raise ValueError(
                f"buckets are an even number, those of a direction and of its opposite, not {self.buckets}"
            )
        if self.choice == "past" and (self.across_buckets or self.rounds_sorted == "together"):
            raise ValueError(
                "across_buckets and rounds_sorted: together cut the whole text into chunks: set choice: text, too"
            )
        return self

    def count(self, layer: Layer) -> int:
        """The number of buckets in a round."""
        return self.buckets or 2 * -(-(layer.context or 32 * self.bucket) // self.bucket)

    def rule(self, layer: Layer) -> Rule:
        """Which slots of the sorted tokens a slot attends to."""
        past = self.choice == "past" and layer.causal
        return Rule(
            self.bucket,
            wrap=self.across_buckets and self.rounds_sorted == "together",
            causal=layer.causal,
            same=not self.across_buckets,
            latest=self.bucket if past else None,
            context=layer.context,
        )

    @override
    def make(self, layer: Layer) -> Mixer:
        return PastReformer(self, layer) if self.choice == "past" and layer.causal else Reformer(self, layer)
