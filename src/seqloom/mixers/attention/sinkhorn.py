"""Sparse Sinkhorn attention: each block of tokens attends to itself and to a weighted mixture of other blocks.

    q = x W_q,   k = x W_k,   v = x W_v                     H heads of width K = D/H; no biases
    z_i = (W_s p_i + b_s + ε) / τ                           p_i the mean key of block i; if causal, of k_0 … k_{ib}
    w = Sinkhorn(z),   k̃_i = Σ_j w_ij k_j,   ṽ_i = Σ_j w_ij v_j         blocks of b tokens, slot by slot
    y_t = softmax(q_t · [k̃_i, k_i] / √K) [ṽ_i, v_i],        out = concat_h(y) W_out

i is the block of t. In the causal forms j < i, and t attends to its own block up to itself. W_s gives a score for each
of the ⌈L/b⌉ blocks of a context of L tokens. ε is Gumbel noise, in training with `noise`. `ops.sinkhorn` balances rows
and columns `steps` times. If causal, that is `choice: text`: rows of later blocks change the sum of a column, so this
form reads whole texts only. If the second half of 128 random tokens is replaced, 88% of the outputs of the first half
change, all but those of the first block, by 0.1% of their norm (blocks of 8, before training; a test checks this). With
`choice: past`, the causal default, rows alone are normalized, by a softmax. `cut` is SortCut: all tokens attend to the
first n sorted blocks and not to their own; it has no causal form.

Code: b is `block`, τ is `temperature`, n is `cut`.

Source: Tay et al., Sparse Sinkhorn Attention, arXiv:2002.11296, section 3; its authors' program in Long Range Arena:
keys are pooled, by one linear layer without the paper's ReLU, and causal rows have a softmax by default. Ours: means
where both sum, so that scores do not grow with the text.
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
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.view import View, of_heads
from seqloom.mixers.bucketed import AHEAD, PAST, WHOLE, ChosenByText
from seqloom.mixers.sorted_past import PastSinkhorn
from seqloom.mixers.sorter import Sorter, before
from seqloom.ops.bucketing import sinkhorn, sorted_blocks
from seqloom.ops.bucketing.choices import soft_choice
from seqloom.ops.past.limit import positions

STEPS = 7
"""Sinkhorn iterations, unless `steps` is set"""


@final
class Sinkhorn(Sorter, ChosenByText):
    """The form whose weights depend on the whole text, causal or bidirectional."""

    def __init__(self, config: "SinkhornConfig", layer: Layer) -> None:
        super().__init__(layer, config.heads, config.tokens(layer), config.temperature, config.noise)
        self.config = config
        self.causal = layer.causal
        self.traits = replace(AHEAD if layer.causal else WHOLE, longest=self.context)

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        """Raises ValueError beyond the context; dropped tokens count as well."""
        positions("sinkhorn", self.context, x)
        q, k, v = self.project(x)
        return self.out(self._heads(q, k, v, lengths))

    @override
    def plots(self, x: Stream) -> list[View]:
        q, k, _ = self.project(x[:1])
        values = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        return of_heads(self._heads(q, k, values)[0])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        T, b, H, N = span.T, self.block, self.heads, -(-span.T // self.block)
        if self.causal:
            scores, entries, rows = self.pooling(span), N * (N - 1) // 2, N - 1
        else:
            pooled = Cost(add=(T - N) * self.dim, div=N * self.dim, path=("cumulation", "division"))
            scores, entries, rows = (pooled, *self.score_prices(H * N)), N * N, N
        balanced = sinkhorn.price(H * entries, H * rows, H * rows, self.config.turns)
        attention = sorted_blocks.price(range(T), T, b, self.dim, H, self.causal, self.config.cut)
        return *scores, balanced, attention, self.w_out

    def _heads(self, q: Tensor, k: Tensor, v: Tensor, lengths: Lengths | None = None) -> Tensor:
        """The outputs (B, H, T, V) of the heads."""
        weights = soft_choice(lambda: self._weights(k, lengths))
        return sorted_blocks.attend(q, k, v, weights, self.block, self.causal, self.config.cut, lengths)

    def _weights(self, k: Tensor, lengths: Lengths | None) -> Tensor:
        """The weights w (B, H, N, N), 0 for blocks without tokens."""
        z = self.past_scores(k) if self.causal else self._text_scores(k, lengths)
        keep = before(z) if self.causal else torch.ones_like(z[:1, :1], dtype=torch.bool)
        if lengths is not None:
            has_tokens = torch.arange(z.shape[2], device=k.device) * self.block < lengths[:, None]
            keep = keep & (has_tokens[:, :, None] & has_tokens[:, None])[:, None]
        return sinkhorn.balance_matrix(z, keep, self.config.turns)

    def _text_scores(self, k: Tensor, lengths: Lengths | None) -> Tensor:
        """z (B, H, N, N) from the mean key of each block, without the padding after `lengths` (B,)."""
        b, T = self.block, k.shape[2]
        N = -(-T // b)
        is_token = torch.arange(N * b, device=k.device) < (T if lengths is None else lengths[:, None, None])
        k = k if lengths is None else torch.where(is_token[..., :T, None], k, 0.0)
        sums = torch.stack([block.sum(2) for block in k.split(b, 2)], 2)
        counts = is_token.unflatten(-1, (N, b)).sum(-1).clamp(min=1)[..., None]
        return self.scores(sums / counts)[..., :N]


@register
class SinkhornConfig(MixerConfig):
    """Attention inside blocks, and to sorted blocks."""

    kind: Literal["sinkhorn"] = "sinkhorn"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    block: int | None = Field(None, ge=1, description="tokens of a block; unset: √context")
    steps: int | None = Field(None, ge=1, description=f"Sinkhorn iterations; unset: {STEPS}; unused with choice=past")
    temperature: float = Field(
        0.75, gt=0, description="temperature of the scores of blocks; near 0 each block selects one"
    )
    noise: bool = Field(False, description="whether Gumbel noise is added to these scores in training")
    choice: Literal["past", "text"] = Field(
        "past", description="weights by a causal softmax per row, or balanced over the whole text (the paper)"
    )
    cut: int | None = Field(
        None, ge=1, description="SortCut: number of sorted blocks that all tokens attend to; bidirectional only"
    )
    traits: ClassVar = replace(PAST, causal="either")
    examples: ClassVar = (
        {"heads": 2, "block": 2},
        {"heads": 2, "block": 3, "choice": "text", "steps": 2},
    )

    @property
    def turns(self) -> int:
        """The number of Sinkhorn iterations."""
        return STEPS if self.steps is None else self.steps

    def tokens(self, layer: Layer) -> int:
        """The number b of tokens in a block."""
        assert layer.context is not None
        return self.block or max(1, round(layer.context**0.5))

    @override
    def make(self, layer: Layer) -> Sorter:
        """Raises ValueError without a context, and for settings that have no meaning in a causal layer."""
        if layer.context is None or layer.context < 1:
            raise ValueError(f"sinkhorn needs a context of 1 or more, whose blocks it scores, not {layer.context}")
        if layer.causal and self.cut is not None:
            raise ValueError("SortCut has no causal form: leave out cut, or use the mixer in an encoder")
        if layer.causal and self.choice == "past":
            if self.steps is not None:
                raise ValueError("choice: past balances no columns: leave out steps, or set choice: text")
            return PastSinkhorn(layer, self.heads, self.tokens(layer), self.temperature, self.noise)
        return Sinkhorn(self, layer)
