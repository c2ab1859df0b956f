"""Combiner: attention to all tokens, to near ones directly, and to distant ones by summaries of regions.

    q = x W_q,   k = x W_k,   v = x W_v                     H heads of width K = D/H; no biases
    y_i = Σ_j p_i(j) v_j + Σ_Ω p_i(Ω) v_Ω                   direct tokens j and regions Ω of i: each j ≤ i is in one
    v_Ω = Σ_{j∈Ω} softmax_Ω(q_Ω · k_j / √K) v_j,            q_Ω = max_{j∈Ω} q_j,  k_Ω = max_{j∈Ω} k_j
    p_i = softmax of q_i · k_j / √K and q_i · k_Ω / √K,     out = concat_h(y) W_out

`form` sets the direct tokens and the regions. `fixed`: the token's block of b tokens, and all blocks before it;
`axial`: its block, and the columns of the blocks before it; `logsparse`: the token alone, and segments of 2^l tokens.
Every token has a weight, and the weights sum to 1. There are T √T pairs if b is √T, or T log T with `logsparse`.

A token attends to all earlier ones; the context only sets b where `block` is unset. A state holds queries, keys and
values. Their regions are computed again for each piece and token; the price counts each region once.

Source: Ren et al., Combiner, arXiv:2107.05768, sections 3 and 4, causal. Of the paper's representations of a region,
max pooling is implemented; its bidirectional forms, mixtures of forms and further layers over regions are not.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View, of_heads
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.ops.attention.combiner import Form, combine
from seqloom.ops.attention.combiner.reference import price
from seqloom.ops.past.cache import with_past

TRAITS = Traits(causal="always", streams=True, state="grows")


@final
class Combiner(CachingMixer):
    """Direct and summarized attention over `dim` channels. State: queries, keys and values of all tokens."""

    traits = TRAITS

    def __init__(self, config: "CombinerConfig", layer: Layer) -> None:
        super().__init__()
        D, H = layer.dim, config.heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}: choose heads that divide dim")
        self.dim, self.heads, self.form = D, H, config.form
        self.block = config.tokens(layer)
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(D, D, bias=False) for _ in range(4))

    @property
    @override
    def state_spec(self) -> StateSpec:
        cache = StateEntry((0, self.dim), grows=True)
        return {"q": cache, "k": cache, "v": cache}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        new = {"q": self.w_q(x), "k": self.w_k(x), "v": self.w_v(x)}
        all_tokens, entries = with_past(state, new, lengths, reuse)
        q, k, v = (self._by_head(all_tokens[name]) for name in ("q", "k", "v"))
        even = state is None or length_of(state).even
        first = q.shape[2] - x.shape[1] if even else 0  # rows of different lengths: outputs of all positions
        y = combine(q, k, v, self.form, self.block, first).transpose(1, 2).flatten(2)
        if state is not None and not even:
            now = state["length"][:, None] + torch.arange(x.shape[1], device=x.device)
            now = now.clamp(max=y.shape[1] - 1)  # only padding is beyond the end
            y = y.gather(1, now[..., None].expand(-1, -1, self.dim))
        out: Tensor = self.w_out(y)
        return out, entries

    @override
    def plots(self, x: Stream) -> list[View]:
        q, k = (self._by_head(w(x[:1])) for w in (self.w_q, self.w_k))
        values = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        return of_heads(combine(q, k, values, self.form, self.block)[0])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        tokens = range(span.T) if span.per == "sequence" else range(span.T - 1, span.T)
        return self.w_q, price(self.form, self.block, tokens, self.dim, self.heads), self.w_out

    def _by_head(self, x: Stream) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


@register
class CombinerConfig(MixerConfig):
    """Full attention, direct to near tokens and by regions to distant tokens."""

    kind: Literal["combiner"] = "combiner"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    form: Form = Field("fixed", description="regions: blocks, columns of blocks, or segments of 2^l tokens")
    block: int | None = Field(None, ge=1, description="tokens of a block; unset: √context (or 32); unused by logsparse")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"heads": 2, "block": 2},
        {"heads": 1, "block": 3, "form": "axial"},
        {"heads": 2, "form": "logsparse"},
    )

    def tokens(self, layer: Layer) -> int:
        """The number b of tokens in a block. ValueError for a block in a form without blocks."""
        if self.form == "logsparse" and self.block is not None:
            raise ValueError("form: logsparse has no blocks: leave out block, or choose another form")
        return self.block or (32 if layer.context is None else max(1, round(layer.context**0.5)))

    @override
    def make(self, layer: Layer) -> Combiner:
        return Combiner(self, layer)
