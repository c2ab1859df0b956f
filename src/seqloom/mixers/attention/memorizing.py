"""Memorizing attention: to the latest tokens, and to the few of many older ones whose keys fit a query best.

    [q k v] = x W_qkv                                            H heads of width K = D/H; no biases
    q, k ← g_q ∘ q / rms(q),  g_k ∘ k / rms(k)                   over each head
    near_i = Σ_j softmax_j(q_i · k_j / √K) v_j                   i - W < j ≤ i
    old_i  = Σ_j softmax_j(q_i · k_j / √K) v_j                   the n largest q_i · k_j of the M tokens before those
    y = σ(b) old + (1 - σ(b)) near,   out = concat_h(y) W_out    b per head; y = near if no token is old

Old keys and values receive no gradient. Before training b is -2: a share of 0.12. Code: W is `window`, M is `memory`,
n is `neighbors`.

Source: Wu et al., Memorizing Transformers, arXiv:2203.08913, section 3. Seed 002 normalizes keys and values; the paper
normalizes queries and keys. Here that is an RMS norm with gains, as in `attention` with qk_norm=heads, whose weights
this mixer can take. For every token the memory begins where its window ends; in the paper it ends with the previous
segment. The paper's near part has positions of its own; here positions are those of the embedding.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, rootnorm, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.ops.attention import attend, band_pattern
from seqloom.ops.attention.recall import Old, recall
from seqloom.ops.attention.recall.reference import price as recall_price
from seqloom.ops.attention.reference import price
from seqloom.ops.fused.rms_norm import RMSNorm
from seqloom.ops.past.cache import past_and_new

TRAITS = Traits(causal="always", streams=True, state="window")


@final
class Memorizing(CachingMixer):
    """Attention with a memory, over `dim` channels. State: keys and values of the last W + M tokens."""

    traits = TRAITS

    def __init__(self, dim: int, config: "MemorizingConfig") -> None:
        super().__init__()
        if dim % config.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {config.heads}: choose heads that divide dim")
        self.dim, self.heads, self.K = dim, config.heads, dim // config.heads
        self.window, self.max_slots = config.window, config.window + config.memory
        self.old = Old(config.window, config.memory, config.neighbors)
        self.w_qkv, self.w_out = Linear(dim, 3 * dim, bias=False), Linear(dim, dim, bias=False)
        self.norm_q, self.norm_k = (RMSNorm(self.K, eps=1e-6) for _ in range(2))
        self.gate = nn.Parameter(torch.empty(config.heads))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        others = [parameter for parameter in self.parameters() if parameter is not self.gate]
        return [{"params": others}, {"params": [self.gate], "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        cache = StateEntry((self.heads, self.max_slots, self.K))
        return {"k": cache, "v": cache}

    @property
    @override
    def parts(self) -> list[nn.Module]:
        return [self.w_qkv, self.w_out]  # the norms are priced per head

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        q, k, v = self._project(x)
        T = x.shape[1]
        if state is None:
            in_window = attend(q, k, v, pattern=band_pattern(self.window))
            if self.window >= T:
                # no token is before the window; the gate gets a gradient of 0, as every parameter needs one
                return self._out(in_window + 0 * self.gate.sum() if torch.is_grad_enabled() else in_window), {}
            first, W = in_window[:, :, : self.window], self.window
            now = torch.arange(W, T, device=x.device)[None]
            later = self._mix_near_and_old(in_window[:, :, W:], q[:, :, W:], k, v, now)
            return self._out(torch.cat([first, later], 2)), {}
        past, entries = past_and_new(length_of(state), state, {"k": k, "v": v}, lengths, reuse)
        (k, v), now, then = past.values, past.now, past.then
        in_window = attend(q, k, v, pattern=band_pattern(self.window), query_time=now, key_time=then)
        y = self._mix_near_and_old(in_window, q, k, v, now, then) if k.shape[2] > self.window else in_window
        return self._out(y), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        return [View("memory gate", "how much of a head's output is recalled", ("head",), torch.sigmoid(self.gate))]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        rows, D, H = span.rows, self.dim, self.heads
        norms = rootnorm(rows * H, self.K) + rootnorm(rows * H, self.K).parallel()
        in_window = price(rows, span.terms(self.window), D, H)
        if self.window >= span.T:
            return self.w_qkv, norms, in_window, self.w_out
        scored, recalled = self.old.terms(span.T)
        if span.per == "token":
            scored_before, recalled_before = self.old.terms(span.T - 1)
            scored, recalled = scored - scored_before, recalled - recalled_before
        n = rows if span.per == "token" else span.T - self.window  # queries with old tokens
        old = recall_price(n, scored, recalled, D, H)
        mixture = Cost(other=n * D, add=2 * n * D, mul=n * D, path=("addition", "multiplication", "addition"))
        return self.w_qkv, norms, in_window.parallel(), old, sigmoid(n * H).parallel(), mixture, self.w_out

    def _project(self, x: Stream) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, H, T, K)."""
        q, k, v = self.w_qkv(x).unflatten(-1, (3, self.heads, self.K)).permute(2, 0, 3, 1, 4)
        return self.norm_q(q), self.norm_k(k), v

    def _mix_near_and_old(
        self, in_window: Tensor, q: Tensor, k: Tensor, v: Tensor, now: Tensor | None = None, then: Tensor | None = None
    ) -> Tensor:
        """y (B, H, T, K): the mixture of near, which is `in_window`, and old."""
        old, any_old = recall(q, k, v, self.old, query_time=now, key_time=then)
        share = torch.sigmoid(self.gate[:, None, None].expand(-1, q.shape[2], 1))
        return torch.where(any_old, in_window + share * (old - in_window), in_window)

    def _out(self, y: Tensor) -> Stream:
        out: Tensor = self.w_out(y.transpose(1, 2).flatten(2))
        return out

    @torch.no_grad()
    def _initialize(self) -> None:
        self.gate.fill_(-2.0)


@register
class MemorizingConfig(MixerConfig):
    """Attention with a memory of older tokens, of which a query attends to the nearest keys."""

    kind: Literal["memorizing"] = "memorizing"
    heads: int = Field(4, ge=1, description="heads, each with its own gate; divides dim")
    window: int = Field(128, ge=1, description="tokens of local attention, the current one included")
    memory: int = Field(1024, ge=1, description="older tokens that are stored in the memory")
    neighbors: int = Field(32, ge=1, description="stored tokens that a query attends to (the paper: 32)")
    traits: ClassVar = TRAITS
    examples: ClassVar = (
        {"heads": 2, "window": 2, "memory": 4, "neighbors": 2},
        {"heads": 1, "window": 3, "memory": 2, "neighbors": 8},
    )

    @override
    def make(self, layer: Layer) -> Memorizing:
        return Memorizing(layer.dim, self)
