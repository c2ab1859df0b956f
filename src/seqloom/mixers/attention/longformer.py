"""Longformer: a window for every token, gaps in the windows of some heads, and a few global tokens.

    S_i = {j: |i - j| ≤ w/2} ∪ G,   y_i = Σ_{j∈S_i} a_ij v_j W_out,   a_ij = softmax over S_i of q_i · k_j / √K
    for i ∈ G:  [q' k' v'] = x W'_qkv,   y_i = Σ_j a'_ij v'_j W_out over all j

G is `global_tokens`. A head with dilation d attends to the same number of keys, d tokens apart; only `dilated_heads` in
the upper half of the layers are dilated. The causal form, a language model, has S_i = {i - w + 1, …, i} and no global
tokens. Windows grow by equal factors from layer to layer if `first_window` is smaller than `window`.

Source: Beltagy et al., arXiv:2004.05150, sections 3 and 4. The paper lists the window of each layer; the equal factors
are ours.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import nn
from typing_extensions import override

from seqloom.core.config import Ints
from seqloom.core.cost import Cost, Span, linear
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import register
from seqloom.core.shapes import Lengths, Stream
from seqloom.layers.linear import Linear
from seqloom.mixers.patterned import EITHER, BidirectionalPatterned, PatternConfig
from seqloom.ops.attention import around as attend_around
from seqloom.ops.attention import attend, everywhere, sparse
from seqloom.ops.attention.patterns import Columns, Dilated, Pattern, Union, around, local
from seqloom.ops.attention.reference import price
from seqloom.ops.fused.projection import project


@final
class Longformer(BidirectionalPatterned):
    """Windows for all tokens, and global tokens with projections of their own."""

    def __init__(self, config: "LongformerConfig", layer: Layer, patterns: list[Pattern]) -> None:
        super().__init__(config.of_heads, layer, patterns)
        self.tokens = sorted(set(config.global_tokens))
        self.w_global = Linear(self.dim, 3 * self.dim, bias=False)

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        T = x.shape[1]
        if self.tokens[-1] >= T:
            raise ValueError(f"global token {self.tokens[-1]} is beyond the text of {T} tokens: leave it out")
        y = sparse.attend(*self.project(x), self.patterns, lengths)

        time = torch.arange(T, device=x.device)
        tokens = torch.stack([time[token] for token in self.tokens])  # the host copies nothing to the device
        factors = zip((x[:, tokens], x, x), self.w_global.weight.chunk(3), strict=True)
        products = (project(inputs, weight) for inputs, weight in factors)
        q, k, v = (tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2) for tensor in products)
        key_time = torch.where(time < (T if lengths is None else lengths[:, None]), time, -1).expand(len(x), -1)
        y_global = attend(
            *(q, k, v),
            pattern=everywhere if self.context is None else attend_around(self.context),
            query_time=tokens.expand(len(x), -1),
            key_time=key_time,
        )
        return self.out(y.index_copy(2, tokens, y_global), x)

    @property
    @override
    def parts(self) -> list[nn.Module]:
        return [
            part for part in super().parts if part is not self.w_global
        ]  # priced in `price_terms`, as it is computed

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        # in parallel to the attention over windows: projections and attention of the global tokens
        G = len(self.tokens)
        global_projections = linear(G, self.dim, self.dim) + linear(span.rows, self.dim, 2 * self.dim)
        pairs = sum(len(range(*_ends(token, self.context, span.T))) for token in self.tokens)
        global_attention = price(G, pairs, self.dim, self.heads)
        *windows, out = super().price_terms(span)
        return *windows, global_projections.parallel(), global_attention.parallel(), out


def _ends(token: int, context: int | None, T: int) -> tuple[int, int]:
    """The first key of a global token, and the one after its last key, in a text of T tokens."""
    return (0, T) if context is None else (max(0, token - context + 1), min(T, token + context))


@register
class LongformerConfig(PatternConfig):
    """Windows that may widen with depth, dilated heads, and global tokens."""

    kind: Literal["longformer"] = "longformer"
    window: int = Field(256, ge=1, description="keys of a query in the last layer: around it, or if causal up to it")
    first_window: int | None = Field(
        None, ge=1, description="keys of a query in the first layer; unset: as in the last"
    )
    dilation: int = Field(1, ge=1, description="distance between the keys of dilated heads")
    dilated_heads: Ints = Field(
        (), description="indices, from 0, of the heads that are dilated in the upper half of the layers"
    )
    global_tokens: Ints = Field(
        (), description="indices, from 0, of the tokens that attend to all tokens and that all attend to"
    )
    traits: ClassVar = EITHER
    examples: ClassVar = ({"heads": 2, "window": 2, "dilation": 2, "dilated_heads": [1]},)
    drawings: ClassVar = (
        {"heads": 2, "window": 4, "dilation": 3, "dilated_heads": [1]},
        {"heads": 1, "window": 6, "global_tokens": [0, 15], "causal": False},
    )

    @model_validator(mode="after")
    def _covers(self) -> "LongformerConfig":
        for head in self.dilated_heads:
            if not 0 <= head < self.heads:
                raise ValueError(f"there is no head {head} to dilate: heads are 0 to {self.heads - 1}")
        if min(self.global_tokens, default=0) < 0:
            raise ValueError(f"global token {min(self.global_tokens)} is before the text: count from 0")
        return self

    @property
    @override
    def has_window(self) -> bool:
        return True

    @override
    def with_window(self, window: int) -> "LongformerConfig":
        """The windows of all layers grow by the same factor."""
        first = None if self.first_window is None else max(1, round(self.first_window * window / self.window))
        return self.model_copy(update={"window": window, "first_window": first})

    @override
    def distinct(self, depth: int) -> int:
        return depth  # the pattern follows the layer's number

    @override
    def make(self, layer: Layer) -> Mixer:
        window = self.layer_window(layer)
        if layer.causal and self.global_tokens:
            raise ValueError("the causal form of longformer has no global tokens: leave global_tokens out")
        outside = [token for token in self.global_tokens if layer.context is not None and token >= layer.context]
        if outside:
            raise ValueError(f"global token {outside[0]} is beyond the context of {layer.context} tokens: leave it out")
        window_pattern: Pattern = local(window) if layer.causal else around(window // 2)
        upper = 2 * layer.number >= layer.depth or layer.depth == 1
        patterns = [
            Dilated(window_pattern, self.dilation) if upper and head in self.dilated_heads else window_pattern
            for head in range(self.heads)
        ]
        if layer.causal:
            return self.causal(layer, patterns)
        if not self.global_tokens:
            return self.bidirectional(layer, patterns)
        tokens = tuple(sorted(set(self.global_tokens)))
        return Longformer(self, layer, [Union((pattern, Columns(tokens, False, pattern))) for pattern in patterns])

    def layer_window(self, layer: Layer) -> int:
        """The window of a layer; it grows geometrically from `first_window` in the first layer to `window`."""
        if self.first_window is None or layer.depth == 1:
            return self.window
        growth = (self.window / self.first_window) ** (layer.number / (layer.depth - 1))
        return round(self.first_window * growth)
