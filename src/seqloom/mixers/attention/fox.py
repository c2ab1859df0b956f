"""FoX, the Forgetting Transformer: attention whose scores decay with every token between a query and a key.

    q = x W_q,   k = x W_k,   v = x W_v                     H heads of width K = D/H; no biases
    g = log σ(x W_f + b_f)                                  per head
    z_ij = q_i · k_j / √K + Σ_{j<s≤i} g_s,   y = concat_h(Σ_{j≤i} softmax_j(z_ij) v_j) W_out

It needs no positions. With a `context` L, a token attends to the L latest tokens, itself included.

Source: Lin et al., Forgetting Transformer, arXiv:2503.02130, section 3, and the authors' layer without its options: the
"Pro" block adds norms of queries and keys, an output gate and norm, and a shift of keys and values. The limit to L
tokens is ours. A state holds the sum of g after each key; the program sums all gates again for each token.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, count_read, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.attention.forgetting import forgetting
from seqloom.ops.attention.forgetting.reference import average_values, price
from seqloom.ops.past import ring
from seqloom.ops.past.cache import extend_cache, write_token
from seqloom.ops.past.pack import within

TRAITS = Traits(causal="always", streams=True, state="grows")


@final
class FoX(PackedMixer):
    """Attention with a forget gate, over `dim` channels. State: keys, values, and the sum of g after each key."""

    traits = TRAITS

    def __init__(self, layer: Layer, heads: int) -> None:
        super().__init__()
        D = layer.dim
        if D % heads:
            raise ValueError(f"dim {D} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.K, self.context = D, heads, D // heads, layer.context
        self.w_qkv, self.w_out = Linear(D, 3 * D, bias=False), Linear(D, D, bias=False)
        self.w_f = Linear(D, heads)

    @property
    @override
    def state_spec(self) -> StateSpec:
        cache = StateEntry((self.heads, 0, self.K), grows=True, axis=1, max_slots=self.context)
        sums = StateEntry((self.heads, 0, 1), "wide", grows=True, axis=1, max_slots=self.context)
        return {"k": cache, "v": cache, "sums": sums}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        q, k, v, g = self._project(x)
        if state is None:
            return self._out(forgetting(q, k, v, g, window=self._window(x.shape[1]))), {}
        size, T = state["k"].shape[2], x.shape[1]
        filled = ring.count_filled(size, length_of(state))
        now = state["length"][:, None] + torch.arange(T, device=x.device)
        then = torch.cat([ring.times(size, state["length"])[:, :filled], now], 1)
        keys, values = (
            torch.cat([state[name][:, :, :filled].to(new.dtype), new], 2) for name, new in (("k", k), ("v", v))
        )
        past = state["sums"][:, :, :filled, 0]
        y = forgetting(q, keys, values, g, past, window=self.context, query_time=now, key_time=then)
        return self._out(y), self._entries_after(state, k, v, g, lengths)

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        # The token is written into the cache first, so that the cache holds all keys.
        q, k, v, g = self._project(x[:, None])
        length, size = length_of(state), state["k"].shape[2]
        keys, values = (write_token(state[name], length, new, reuse) for name, new in (("k", k), ("v", v)))
        filled = ring.count_filled(size, length.after(1, 1))
        past_sums, own_sum = self._decayed_sums(state, g, filled), torch.zeros_like(g)[..., None]
        sums = write_token(past_sums, length, own_sum, True)
        every_slot = length.even and length.bound is not None
        visible = None if every_slot else ring.times(size, length.tokens + 1)[:, None, None, :filled] >= 0
        k, v = (cache[:, :, :filled].to(x.dtype) for cache in (keys, values))
        y = average_values(q, k, v, sums[:, :, :filled, 0], visible)
        entries = {"k": keys, "v": values, "sums": state["sums"].copy_(sums) if reuse else sums}
        return self._out(y)[:, 0], entries

    @override
    def crop(self, state: State, tokens: int) -> State:
        cropped = super().crop(state, tokens)
        sums = cropped["sums"]
        if not sums.shape[2]:
            return cropped
        # a row's last key had a sum of 0 when it was read: now it has the gates of the tokens that are cropped
        last = (cropped["length"].clamp(min=1) - 1) % sums.shape[2]
        last = last.view(-1, 1, 1, 1).expand(-1, self.heads, 1, 1)
        return count_read({**cropped, "sums": sums - sums.gather(2, last)}, length_of(cropped))

    @override
    def plots(self, x: Stream) -> list[View]:
        g = self._project(x[:1])[3]
        return [View("forget gate", "how much of what is before it a token leaves", ("head", "token"), g[0].exp())]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n = span.rows * self.heads
        gates = Cost(add=n, exp=n, other=n).parallel()
        return self.w_qkv, gates, price(span.rows, span.terms(self.context), self.dim, self.heads), self.w_out

    def _project(self, x: Stream) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, H, T, K), and g (B, H, T) in float32 or better."""
        q, k, v = self.w_qkv(x).unflatten(-1, (3, self.heads, self.K)).permute(2, 0, 3, 1, 4)
        logits = self.w_f(x)
        return q, k, v, logsigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32))).transpose(1, 2)

    def _entries_after(self, state: State, k: Tensor, v: Tensor, g: Tensor, lengths: Tensor | None) -> Entries:
        """The entries after tokens with keys k, values v (B, H, T, K) and gates g (B, H, T)."""
        if lengths is not None:
            g = torch.where(within(lengths, g.shape[2])[:, None], g, 0.0)
        filled = ring.count_filled(state["k"].shape[2], length_of(state).after(k.shape[2], k.shape[2]))
        sums_after = (g.sum(-1, keepdim=True) - g.cumsum(-1))[..., None]
        past_sums = self._decayed_sums(state, g, filled)
        writes = (("k", state["k"], k), ("v", state["v"], v), ("sums", past_sums, sums_after))
        return {name: extend_cache(cache, state["length"], new, lengths) for name, cache, new in writes}

    def _decayed_sums(self, state: State, g: Tensor, filled: int) -> Tensor:
        """The sums (B, H, C, 1) of cached keys with the new gates g (B, H, T) added, in the first `filled` slots."""
        sums = state["sums"]
        decayed = sums[:, :, :filled] + g.sum(-1)[:, :, None, None]
        holds_key = (ring.times(sums.shape[2], state["length"]) >= 0)[:, None, :filled, None]
        return torch.cat([torch.where(holds_key, decayed, 0.0), sums[:, :, filled:]], 2)

    def _out(self, y: Tensor) -> Stream:
        out: Tensor = self.w_out(y.transpose(1, 2).flatten(2))
        return out

    def _window(self, T: int) -> int | None:
        """The window for a text of T tokens; None if the context covers it."""
        return None if self.context is None or self.context >= T else self.context


@register
class FoXConfig(MixerConfig):
    """The Forgetting Transformer's attention."""

    kind: Literal["fox"] = "fox"
    heads: int = Field(4, ge=1, description="heads, each with a forget gate; divides dim")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(128, "sums of a block's gates are rounded, which the gates' bias adds up")
    examples: ClassVar = ({"heads": 2}, {"heads": 1})

    @override
    def make(self, layer: Layer) -> FoX:
        return FoX(layer, self.heads)
