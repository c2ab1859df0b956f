"""Transformer-XL: attention over a token and the M before it, whose inputs are cached instead of keys and values.

    q = x W_q,   [k v] = [memory; x] W_kv           memory: the last M inputs of this layer; H heads of width K = D/H
    z_ij = ((q_i + u) · k_j + (q_i + w) · W_R r_{i-j}) / √K          per head; see `seqloom.positions.transformer_xl`
    y_i = concat_h(Σ_{i-M≤j≤i} softmax_j(z_ij) v_j) W_out

Memory is projected again for each piece that is read, with the weights of that moment: in training under
`training.memory=carry` these are one step newer than the inputs, which carry no gradient from one step to the next. N
layers reach M·N tokens back. No weight has M as a size, so a trained model can be evaluated with another M.

Source: Dai et al., arXiv:1901.02860, sections 3.2 and 3.3. There a token also attends to the tokens before it in its
segment, so to M to M + T - 1 tokens; here always to M, as with `same_length` of the authors' TensorFlow program (one
less in their PyTorch program), so that the result does not depend on how a text is cut. A piece of T tokens projects
M + T inputs; the price counts each input once.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from jaxtyping import Float
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
from seqloom.mixers.base import PackedMixer
from seqloom.ops.attention import attend, band_pattern, weights
from seqloom.ops.attention.reference import price
from seqloom.ops.past import ring
from seqloom.positions.transformer_xl import TransformerXL

TRAITS = Traits(causal="always", streams=True, state="window")


@final
class TransformerXLAttention(PackedMixer):
    """Attention with a memory of inputs, over `dim` channels. State: the last M inputs (B, M, D)."""

    traits = TRAITS

    def __init__(self, config: "TransformerXLAttentionConfig", layer: Layer) -> None:
        super().__init__()
        D, H = layer.dim, config.heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}: choose heads that divide dim")
        self.dim, self.heads, self.M = D, H, config.memory
        self.w_q, self.w_kv = Linear(D, D, bias=False), Linear(D, 2 * D, bias=False)
        self.position = TransformerXL(D // H, H, config.base)
        self.w_out = Linear(D, D, bias=False)

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"x": StateEntry((self.M, self.dim))}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        if state is None:
            q, k, v = self._project(x, x)
            q, scores = self._change_scores(q, x.shape[1])
            return self._out(attend(q, k, v, pattern=band_pattern(self.M + 1), **scores)), {}
        filled = ring.count_filled(self.M, length_of(state))
        now = state["length"][:, None] + torch.arange(x.shape[1], device=x.device)
        then = torch.cat([ring.times(self.M, state["length"])[:, :filled], now], 1)
        q, k, v = self._project(x, torch.cat([state["x"][:, :filled].to(x.dtype), x], 1))
        q, scores = self._change_scores(q, then.shape[1])
        y = attend(q, k, v, pattern=band_pattern(self.M + 1), query_time=now, key_time=then, **scores)
        return self._out(y), {"x": ring.write(state["x"], state["length"], x, lengths)}

    @override
    def plots(self, x: Stream) -> list[View]:
        q, k, _ = self._project(x[:1], x[:1])
        q, scores = self._change_scores(q, x.shape[1])
        return of_heads(weights(q, k, pattern=band_pattern(self.M + 1), **scores)[0])

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        nn.init.zeros_(self.position.u)
        nn.init.zeros_(self.position.v)

    @property
    @override
    def parts(self) -> list[nn.Module]:
        """The parts with prices of their own: positions are priced in `price_terms`."""
        return [part for part in super().parts if part is not self.position]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        """Each input is counted as projected once, as in a whole text, although pieces project the memory again."""
        reach = min(span.T, self.M + 1)
        distances = reach - (min(span.T - 1, self.M + 1) if span.per == "token" else 0)
        terms = span.terms(self.M + 1)
        position = self.position.price(span, terms, distances)
        return self.w_kv, position, price(span.rows, terms, self.dim, self.heads), self.w_out

    def _project(self, x: Stream, inputs: Float[Tensor, "B N D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K) of x, keys and values (B, H, N, K) of the memory and x together."""
        k, v = self.w_kv(inputs).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.w_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2), k, v

    def _change_scores(self, q: Tensor, keys: int) -> tuple[Tensor, dict[str, Any]]:
        """The queries plus u, and the argument of `attend` that changes scores by the distances within `keys` keys."""
        relation = self.position(min(keys - 1, self.M), 0, False)
        return q + relation.query.to(q.dtype), {"score_change": relation.score_change}

    def _out(self, y: Tensor) -> Stream:
        out: Tensor = self.w_out(y.transpose(1, 2).flatten(2))
        return out


@register
class TransformerXLAttentionConfig(MixerConfig):
    """Transformer-XL's attention, which stores the inputs of its layer and projects them again."""

    kind: Literal["transformer_xl"] = "transformer_xl"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    memory: int = Field(
        128,
        ge=1,
        le=2**20,
        description="tokens before the current one that a token attends to, whose inputs are stored",
    )
    base: float = Field(
        10000.0, gt=1, description="approximate ratio of the longest wavelength of the positions to the shortest"
    )
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 4, "memory": 3}, {"heads": 1, "memory": 1})

    @property
    @override
    def tokens_back(self) -> int:
        return self.memory

    @property
    @override
    def has_window(self) -> bool:
        return True

    @override
    def with_window(self, window: int) -> "TransformerXLAttentionConfig":
        """A window counts the token itself. ValueError for one that leaves no memory."""
        if window < 2:
            raise ValueError(f"a window of {window} token leaves transformer_xl no memory: choose 2 or more")
        return self.model_copy(update={"memory": window - 1})

    @override
    def make(self, layer: Layer) -> TransformerXLAttention:
        return TransformerXLAttention(self, layer)
