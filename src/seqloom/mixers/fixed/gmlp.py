"""gMLP: a network over the channels of each token, with a gate that is a sum over positions.

    u, v = halves of GELU(x W_in + b_in)                          E = `expand` D channels, E/2 each
    s_t = Σ_j w_tj LN(v)_j + b_t + a_t                            the spatial gate, the same for every channel
    out = (u ∘ s) W_out + b_out
    a = softmax(q kᵀ / √A) v' W_a,   [q k v'] = x W_qkv           tiny attention of A = `attention` channels; 0: none

w is L × L and b has L numbers, L = `context`. With `toeplitz` w_tj is w_{t-j} and b one number: the sum is that of
`me`, and without attention texts can have any length. If causal, the sums and attention run over j ≤ t. Before training
w is uniform in ±10⁻³/L and b is 1, so that at initialization tokens are hardly mixed.

It includes a network over channels; in the paper no feed-forward network follows (`model.ffn.kind: none`).

Source: Liu et al., Pay Attention to MLPs, arXiv:2105.08050, sections 2 and 4 (tiny attention: one head of 64 channels);
the residual and the first norm are the block's. The range of w is ours, "near zero" there, and so is the causal form of
tiny attention.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import gelu
from typing_extensions import override

from seqloom.core import cost
from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.attention import attend, causal, everywhere
from seqloom.ops.attention.reference import price as attention_price
from seqloom.ops.fixed.triangular import triangular
from seqloom.ops.fixed.triangular.reference import price
from seqloom.ops.lag_sum import centered, online, taps
from seqloom.ops.past.cache import with_past
from seqloom.ops.past.limit import positions
from seqloom.ops.past.pack import within

TRAITS = Traits(causal="always", streams=True, state="grows")
NEVER = Traits(causal="never", streams=False, state="none")


class SpatialGate(Mixer, ABC):
    """The weights of both forms."""

    def __init__(self, config: "GMLPConfig", layer: Layer, lags: int) -> None:
        super().__init__()
        D, E, A = layer.dim, config.expand * layer.dim, config.attention
        if E % 2:
            raise ValueError(
                f"expand {config.expand} of dim {D} is {E} channels, which have no halves: choose an even one"
            )
        assert layer.context is not None
        self.dim, self.width, self.context, self.A = D, E // 2, layer.context, A
        self.w_in, self.norm, self.w_out = Linear(D, E), nn.LayerNorm(E // 2), Linear(E // 2, D)
        self.toeplitz = config.toeplitz
        self.longest = None if self.toeplitz and not A else self.context
        self.w = nn.Parameter(torch.empty((lags,) if self.toeplitz else (self.context, self.context)))
        self.b = nn.Parameter(torch.empty(1 if self.toeplitz else self.context))
        self.w_qkv = Linear(D, 3 * A, bias=False) if A else None
        self.w_a = Linear(A, E // 2, bias=False) if A else None
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        others = [parameter for parameter in self.parameters() if parameter is not self.b]
        return [{"params": others}, {"params": [self.b], "weight_decay": 0.0}]  # 0 would close the gate

    def halves(self, x: Stream) -> tuple[Tensor, Tensor]:
        """u and LN(v) (B, T, E/2)."""
        u, v = gelu(self.w_in(x)).chunk(2, -1)
        return u, self.norm(v)

    def heads(self, x: Stream) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, T, A) of the tiny attention."""
        assert self.w_qkv is not None
        q, k, v = self.w_qkv(x).chunk(3, -1)
        return q, k, v

    def tiny_attention(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        """The tiny attention a (B, T, E/2), from queries, keys and values (B, T, A)."""
        assert self.w_a is not None
        a: Tensor = self.w_a(attend(q[:, None], k[:, None], v[:, None], **options)[:, 0])
        return a

    def price_with(self, span: Span, summed: Cost, terms: int) -> Iterable[Cost | nn.Module | None]:
        """The chain, with the price of the sum over positions and the pairs that attention scores."""
        rows, n = span.rows, span.rows * self.width
        attention = attention_price(rows, terms, self.A, 1).parallel() if self.A else None
        bias = Cost(add=n, path=("addition",))
        attention_sum = bias if self.A else None
        product = Cost(mul=n, path=("multiplication",))
        return self.w_in, cost.gelu(2 * n), self.norm, summed, attention, bias, attention_sum, product, self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        nn.init.uniform_(self.w, -1e-3 / self.context, 1e-3 / self.context)
        nn.init.ones_(self.b)


@final
class GMLP(SpatialGate, CachingMixer):
    """The causal form. State: LN(v) of all positions, or as `ops.lag_sum.online`; and attention's keys and values."""

    def __init__(self, config: "GMLPConfig", layer: Layer) -> None:
        super().__init__(config, layer, layer.context or 0)
        window = replace(TRAITS, state="window")
        self.traits = window if self.longest is None else replace(TRAITS, longest=self.longest)

    @property
    @override
    def state_spec(self) -> StateSpec:
        gate = StateEntry((0, self.width), grows=True, max_slots=self.context)
        sums = online.entries(self.context, self.width) if self.toeplitz else {"gate": gate}
        cache = StateEntry((0, self.A), grows=True, max_slots=self.context)
        return {**sums, **({"k": cache, "v": cache} if self.A else {})}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        """Raises ValueError beyond `longest` positions; without a state, dropped positions count too."""
        u, v = self.halves(x)
        s, entries = self._sum_positions(v, state, lengths, reuse)
        if self.A:
            a, cached = self._attention(x, state, lengths, reuse)
            s, entries = s + a, {**entries, **cached}
        return self.w_out(u * s), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        T = x.shape[1]
        return [taps.view(self.w) if self.toeplitz else _view(self.w[:T, :T].tril())]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        summed = taps.price(span, self.width, self.context) if self.toeplitz else price(span, self.width)
        return self.price_with(span, summed, span.terms())

    def _sum_positions(
        self, v: Tensor, state: State | None, lengths: Lengths | None, reuse: bool
    ) -> tuple[Tensor, Entries]:
        """s without attention (B, T, E/2), and the entries of its state."""
        if self.toeplitz:
            s, entries = online.carry(v, self.w, state, lengths, reuse)
            return s + self.b, entries
        t = positions("gmlp", self.context, v, state, lengths).clamp(max=self.context - 1)
        cached, entries = with_past(state, {"gate": v}, lengths, reuse)
        s = triangular(cached["gate"][:, :, None], self.w[:, None, :, None], None if state is None else t)[:, :, 0]
        return s + self.b[t][..., None], entries

    def _attention(
        self, x: Stream, state: State | None, lengths: Lengths | None, reuse: bool
    ) -> tuple[Tensor, Entries]:
        """The tiny attention a (B, T, E/2) of x, and the entries of its cache."""
        t = positions("gmlp", self.context, x, state, lengths)
        q, k, v = self.heads(x)
        if state is None:
            return self.tiny_attention(q, k, v), {}
        cached, entries = with_past(state, {"k": k, "v": v}, lengths, reuse)
        then = torch.arange(cached["k"].shape[1], device=x.device).expand(len(x), -1)
        return self.tiny_attention(q, cached["k"], cached["v"], pattern=causal, query_time=t, key_time=then), entries


@final
class BidirectionalGMLP(SpatialGate, BidirectionalMixer):
    """The bidirectional form, over whole rows; with `toeplitz` taps reach as far ahead as back."""

    def __init__(self, config: "GMLPConfig", layer: Layer) -> None:
        super().__init__(config, layer, 2 * (layer.context or 0) - 1)
        self.traits = replace(NEVER, longest=self.longest)

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        """Raises ValueError beyond `longest` positions; dropped ones count as well."""
        if self.longest is not None:
            positions("gmlp", self.longest, x)
        T = x.shape[1]
        u, v = self.halves(x)
        if lengths is not None:
            v = torch.where(within(lengths, T)[:, :, None], v, 0.0)
        summed = centered.sum_centered(v, self.w) if self.toeplitz else self.w[:T, :T] @ v
        s = summed + self.b[:T, None]  # with `toeplitz` b is one number
        if self.A:
            time = torch.arange(T, device=x.device)
            then = None if lengths is None else torch.where(within(lengths, T), time, -1)
            s = s + self.tiny_attention(*self.heads(x), pattern=everywhere, key_time=then)
        return self.w_out(u * s)

    @override
    def plots(self, x: Stream) -> list[View]:
        T = x.shape[1]
        return [centered.view(self.w) if self.toeplitz else _view(self.w[:T, :T])]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        T, H = span.rows, self.width
        if self.toeplitz:
            summed = centered.price(span, H, self.context)
        else:
            summed = Cost(mul=T * T * H, add=T * max(T - 1, 0) * H, path=("multiplication", "cumulation"))
        return self.price_with(span, summed, T * T)


def _view(w: Tensor) -> View:
    """The view of spatial weights (T, T)."""
    return View("spatial weights", "the weight of a position in the gate of another", ("query", "key"), w)


@register
class GMLPConfig(MixerConfig):
    """A network with a spatial gate. It reads `context` tokens, or any number with `toeplitz` and no attention."""

    kind: Literal["gmlp"] = "gmlp"
    expand: int = Field(6, ge=1, description="hidden channels, as a multiple of dim; half of them are the gate")
    attention: int = Field(0, ge=0, description="channels of the tiny attention; 0 for none, 64 in the paper")
    toeplitz: bool = Field(False, description="whether weights depend on the lag instead of on the pair of positions")
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = (
        {"expand": 2},
        {"expand": 1, "attention": 3},
        {"expand": 2, "toeplitz": True},
        {"expand": 1, "toeplitz": True, "attention": 4},
    )

    @override
    def make(self, layer: Layer) -> SpatialGate:
        """Raises ValueError without a context."""
        if layer.context is None or layer.context < 1:
            raise ValueError(
                f"gmlp needs a context of 1 or more, the positions that it has weights for, not {layer.context}"
            )
        return GMLP(self, layer) if layer.causal else BidirectionalGMLP(self, layer)
