"""Multi-head latent attention: keys and values are rebuilt from one small vector per token, the only one cached.

    c = norm(x W_c),   k̃ = x W_r                       C = `rank` channels, and one key of R channels for all heads
    q_h = x W_q, or norm(x W_d) W_q of `query_rank`    K + R wide per head: q_h = [q'_h q̃_h]
    [k_h v_h] = c W_kv                                  K = V = D/H wide per head
    z_ij = (q'_i · k_j + q̃_i · k̃_j) / √(K + R)          q̃ and k̃ turned by their positions (`rotary`)
    y = concat_h(Σ_{j≤i} softmax_j(z_ij) v_j) W_o

The state holds c and the turned k̃ alone. After a state, a piece or a token is computed in the absorbed form, where
W_kv = [W_k W_v] is multiplied with queries and outputs instead of with every c:

    q'_i · k_j = (q'_i W_kᵀ) · c_j,   Σ_j a_ij v_j = (Σ_j a_ij c_j) W_v

With a `context` L, a token attends to the L latest tokens, itself included; norm(x) = x / √(mean of x² + 1e-6) ∘
gain.

Source: DeepSeek-AI, DeepSeek-V2, arXiv:2405.04434, section 2.1 and appendix C, and DeepSeek-V3's program, which turns
neighbors as pairs. The paper's K is free, here K = D/H. The price counts the rebuilding of each key and value once.
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
from seqloom.ops.attention import attend, band_pattern, weights
from seqloom.ops.attention.reference import price
from seqloom.ops.fused.rms_norm import RMSNorm
from seqloom.ops.past.cache import past_and_new
from seqloom.positions.rotary import Rotary

TRAITS = Traits(causal="always", streams=True, state="grows")


@final
class MLA(CachingMixer):
    """Multi-head latent attention over `dim` channels. State: c and k̃ (B, T, C + R), at most `context` of them."""

    traits = TRAITS

    def __init__(self, config: "MLAConfig", layer: Layer) -> None:
        super().__init__()
        D, H = layer.dim, config.heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}: choose heads that divide dim")
        self.dim, self.heads, self.K, self.context = D, H, D // H, layer.context
        self.rank = config.rank or max(1, D // 2)
        self.R = config.rotary_width or max(2, self.K // 4 * 2)
        for name, rank in (("rank", self.rank), ("query_rank", config.query_rank)):
            if rank > D:
                raise ValueError(f"{name} {rank} is above the width {D}: nothing would be small, choose {D} at most")
        if config.rotary and self.R % 2:
            raise ValueError(f"rotary positions turn pairs of channels: rotary_width {self.R} is odd")
        self.w_c, self.w_r = Linear(D, self.rank, bias=False), Linear(D, self.R, bias=False)
        self.norm = RMSNorm(self.rank, eps=1e-6)
        self.w_d = Linear(D, config.query_rank, bias=False) if config.query_rank else None
        self.norm_d = RMSNorm(config.query_rank, eps=1e-6) if config.query_rank else None
        self.w_q = Linear(config.query_rank or D, H * (self.K + self.R), bias=False)
        self.w_kv = Linear(self.rank, 2 * D, bias=False)
        self.w_o = Linear(D, D, bias=False)
        self.rotary = Rotary(self.R, H, 1, config.base, "neighbors") if config.rotary else None

    @override
    def rebuild(self) -> None:
        if self.rotary is not None:
            self.rotary.rebuild(self.device)

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"c": StateEntry((0, self.rank + self.R), grows=True, max_slots=self.context)}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        q, c = self._project(x, state["length"] if state else None)
        if state is None:
            k, v = self._rebuild_heads(c)
            y = attend(q, k, v, pattern=band_pattern(self._reach(x.shape[1])))
            return self.w_o(y.transpose(1, 2).flatten(2)), {}
        cache = {"c": state["c"][:, None]}  # of one head
        past, entries = past_and_new(length_of(state), cache, {"c": c[:, None]}, lengths, reuse)
        return self._attend_compressed(q, past.values[0][:, 0], past.now, past.then), {"c": entries["c"][:, 0]}

    @override
    def plots(self, x: Stream) -> list[View]:
        q, c = self._project(x[:1])
        return of_heads(weights(q, self._rebuild_heads(c)[0], pattern=band_pattern(self._reach(x.shape[1])))[0])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        """Keys and values are rebuilt once; the absorbed form multiplies rows of C + R in place of K + R and V."""
        rows, terms = span.rows, span.terms(self.context)
        rotary = Cost(mul=terms * self.heads * self.R, add=terms * self.heads * self.R)
        scores = price(rows, terms, self.dim, self.heads) + rotary
        return self.w_c, self.norm, self.w_kv, scores, self.w_o

    def _project(self, x: Stream, tokens_before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, K+R), and c and k̃ (B, T, C+R), of tokens that follow `tokens_before` (B,); None is 0."""
        query_input = x if self.w_d is None or self.norm_d is None else self.norm_d(self.w_d(x))
        q = self.w_q(query_input).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        shared_key = self.w_r(x)[:, None]  # (B, 1, T, R)
        if self.rotary is not None:
            time = torch.arange(x.shape[1], device=x.device)
            content, positional = q.split((self.K, self.R), -1)
            positional, shared_key = self.rotary(
                positional, shared_key, time if tokens_before is None else tokens_before[:, None] + time
            )
            q = torch.cat([content, positional], -1)
        return q, torch.cat([self.norm(self.w_c(x)), shared_key[:, 0]], -1)

    def _rebuild_heads(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, H, T, K+R) and values (B, H, T, K) of every head."""
        latent, shared_key = c.split((self.rank, self.R), -1)
        k, v = self.w_kv(latent).unflatten(-1, (self.heads, 2, self.K)).permute(3, 0, 2, 1, 4)
        return torch.cat([k, shared_key[:, None].expand(-1, self.heads, -1, -1)], -1), v

    def _attend_compressed(self, q: Tensor, c: Tensor, now: Tensor, then: Tensor) -> Stream:
        """The output of queries at times `now` over c and k̃ (B, N, C+R) at times `then`."""
        w_k, w_v = self.w_kv.weight.unflatten(0, (self.heads, 2, self.K)).unbind(1)  # (H, K, C)
        content, positional = q.split((self.K, self.R), -1)
        queries = torch.cat([content @ w_k, positional], -1)  # (B, H, T, C+R)
        options = {"query_time": now, "key_time": then, "scale": (self.K + self.R) ** -0.5}
        y = attend(queries, c[:, None], c[:, None, :, : self.rank], pattern=band_pattern(self.context), **options)
        return self.w_o((y @ w_v.mT).transpose(1, 2).flatten(2))

    def _reach(self, T: int) -> int | None:
        """The window for a text of T tokens; None if the context covers it."""
        return None if self.context is None or self.context >= T else self.context


@register
class MLAConfig(MixerConfig):
    """Multi-head latent attention, which stores one latent vector and one key per token."""

    kind: Literal["mla"] = "mla"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    rank: int = Field(0, ge=0, description="width of the latent vector of keys and values, at most dim; 0 for dim / 2")
    query_rank: int = Field(0, ge=0, description="rank of the matrix of queries, at most dim; 0 for a full matrix")
    rotary_width: int = Field(0, ge=0, description="channels of the key that heads share; 0 for half of a head's")
    rotary: bool = Field(True, description="whether the shared key has rotary positions (Kimi Linear: no)")
    base: float = Field(10000.0, gt=1, description="approximate ratio of the fastest rotation to the slowest")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"heads": 2, "rank": 3},
        {"heads": 2, "query_rank": 5, "rotary_width": 4},
        {"heads": 4, "rotary": False, "rotary_width": 1},
    )

    @override
    def make(self, layer: Layer) -> MLA:
        return MLA(self, layer)
