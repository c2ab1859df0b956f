"""AFT-full: attention whose weights know no query; they are the key of a token and a bias for each pair of places.

    q = x W_q,  k = x W_k,  v = x W_v                                        no biases; k has a number a channel
    y_t = σ(q_t) ∘ (Σ_{j≤t} e^{k_j + w_{tj}} ∘ v_j) / (Σ_{j≤t} e^{k_j + w_{tj}})
    w_{tj} = u_t · r_j of width F = `bias_dim`, or a table of its own where that is 0;   t, j < context;   w = (u, r)
    out = y W_out

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103, Eq. 2 and "Parameterization", which calls r v. Its
sums reach to T where it is not causal, ours to t. W_out is in none of its equations, but in the parameters that it
counts. Factors begin at N(0, 0.1²), a table at 0: ours. Seed 001 makes k a scalar, seed 004 sums to T; both leave the
factors out.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate
from seqloom.core.layer import Layer
from seqloom.core.memory import Entry, Memory
from seqloom.core.mixer import MixerConfig, Traits, register
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View
from seqloom.mixers.base import PackedMixer
from seqloom.ops import ring
from seqloom.ops.biased_average import average, biases, price
from seqloom.ops.biased_average.memory import recall
from seqloom.ops.projection import Linear

TRAITS = Traits(causal="always", streams=True, state="grows")


@final
class AFTFull(PackedMixer):
    """AFT-full over `dim` channels and `context` places. State: keys and values of all that was read."""

    def __init__(self, dim: int, context: int, bias_dim: int) -> None:
        super().__init__()
        self.dim, self.context, self.bias_dim = dim, context, bias_dim
        self.traits = replace(TRAITS, longest=context)  # biases exist for so many places
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.w = nn.Parameter(biases.first(context, bias_dim))

    @override
    def reset(self, std: float) -> None:
        """The biases begin as they always do."""
        super().reset(std)
        with torch.no_grad():
            self.w.copy_(biases.first(self.context, self.bias_dim))

    @override
    def mix(self, x: Stream) -> Stream:
        """Raises ValueError beyond `context` places, dropped ones included."""
        T = x.shape[1]
        biases.within("aft_full", self.context, T)
        bias = self._bias(torch.arange(T, device=x.device)[None], T)
        return self._out(x, average(self.w_k(x), self.w_v(x), bias))

    @property
    @override
    def memory(self) -> Memory:
        """Keys and values (B, C, D), C places of which `length` are used."""
        cache = Entry((0, self.dim), grows=True, most=self.context)
        return {"k": cache, "v": cache}

    @override
    def carry(self, x: Stream, state: State, lengths: Lengths) -> tuple[Stream, Entries]:
        """Raises ValueError where a row would hold more than `context` tokens."""
        length, T, size = length_of(state), x.shape[1], state["k"].shape[1]
        biases.within_after("aft_full", self.context, length, lengths, T)
        k, v, used = self.w_k(x), self.w_v(x), ring.held(size, length)
        y = self._read(x, k, v, state, used)
        room = max(size, min(used + T, self.context))
        held = {
            n: ring.write(ring.grow(state[n], room), length.tokens, new, lengths) for n, new in (("k", k), ("v", v))
        }
        return self._out(x, y), held

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        """A full cache that is reused doubles; ValueError beyond `context` tokens."""
        length, size = length_of(state), state["k"].shape[1]
        biases.within_after("aft_full", self.context, length, 1, 1)
        k, v, used = self.w_k(x), self.w_v(x), ring.held(size, length)
        y = self._read(x[:, None], k[:, None], v[:, None], state, used)[:, 0]
        needed = max(size, min(used + 1, self.context))
        room = min(max(2 * size, needed), self.context) if reuse and needed > size else needed
        held = {}
        for name, new in (("k", k), ("v", v)):
            cache = ring.grow(state[name], room)
            if reuse:
                held[name] = ring.write_(cache, length.tokens, new.detach())
            else:
                held[name] = ring.write(cache, length.tokens, new[:, None], torch.ones_like(length.tokens))
        return self._out(x, y), held

    @override
    def views(self, x: Stream) -> list[View]:
        """The biases of the places of `x`, 0 for keys after the query."""
        T = x.shape[1]
        biases.within("aft_full", self.context, T)
        places = torch.arange(T, device=x.device)
        table = biases.by_key(self._bias(places[None], T)[0, :, :, 0])
        meaning = "what is added to the key of an earlier token before the exponential, for each query"
        return [View("biases", meaning, ("query", "key"), table)]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        D = self.dim
        bias = price.factors(span.terms(), self.bias_dim)
        return self.w_k, bias, price.price(span, None, D, D), gate(span.rows * D), self.w_out

    def _bias(self, places: Tensor, lags: int) -> Tensor:
        return biases.over_keys(self.w, places, lags)

    def _read(self, x: Tensor, k: Tensor, v: Tensor, state: State, used: int) -> Tensor:
        places = state["length"][:, None] + torch.arange(x.shape[1], device=x.device)
        past = tuple(each.to(v.dtype) for each in recall(state["k"], state["v"], state["length"], used))
        return average(k, v, self._bias(places, used + x.shape[1]), (past[0], past[1]))

    def _out(self, x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.w_out(torch.sigmoid(self.w_q(x)) * y)
        return out


@register
class AFTFullConfig(MixerConfig):
    """AFT with a bias for each pair of places. It reads at most `context` tokens."""

    kind: Literal["aft_full"] = "aft_full"
    bias_dim: int = Field(128, ge=0, description="width of the factors of the biases; 0 for a plain table of them")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"bias_dim": 3}, {"bias_dim": 0})

    @override
    def make(self, layer: Layer) -> AFTFull:
        """Raises ValueError without a context."""
        if layer.context is None or layer.context < 1:
            raise ValueError(
                f"aft_full needs a context of 1 or more, the places that it has biases for, not {layer.context}"
            )
        return AFTFull(layer.dim, layer.context, self.bias_dim)
