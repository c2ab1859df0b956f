"""AFT-local: AFT-full whose biases are 0 outside a window; the tokens outside are read all the same.

    q = x W_q,  k = x W_k,  v = x W_v                                        no biases; k has a number a channel
    y_t = σ(q_t) ∘ (Σ_{j≤t} e^{k_j + w_{tj}} ∘ v_j) / (Σ_{j≤t} e^{k_j + w_{tj}})
    w_{tj} = u_t · r_j of width F = `bias_dim`, or an entry of a table where that is 0, for t - j < `window`, else 0
    out = y W_out                                                            t, j < context;   w is (u, r), or the table

What left the window needs no bias, so the state is the window and one sum, whatever was read.

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103, Eq. 2, 3 and "Parameterization", which calls r v.
Its sums reach to T where it is not causal, ours to t. W_out is in none of its equations, but in the parameters that it
counts. Factors begin at N(0, 0.1²), a table at 0: ours. The table has a column a lag, and does not hold the zeros.
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
from seqloom.core.memory import Memory
from seqloom.core.mixer import MixerConfig, Traits, register
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.view import View
from seqloom.mixers.base import PackedMixer
from seqloom.ops.biased_average import average, biases, memory, price
from seqloom.ops.projection import Linear

TRAITS = Traits(causal="always", streams=True, state="window")


@final
class AFTLocal(PackedMixer):
    """AFT-local over `dim` channels and `context` places. State: the keys and values of the window, and one sum."""

    def __init__(self, dim: int, context: int, window: int, bias_dim: int) -> None:
        super().__init__()
        self.dim, self.context, self.bias_dim = dim, context, bias_dim
        self.window = min(window, context)
        self.traits = replace(TRAITS, longest=context)  # biases exist for so many places
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.w = nn.Parameter(biases.first(context, bias_dim, self.window))

    @override
    def reset(self, std: float) -> None:
        """The biases begin as they always do."""
        super().reset(std)
        with torch.no_grad():
            self.w.copy_(biases.first(self.context, self.bias_dim, self.window))

    @override
    def mix(self, x: Stream) -> Stream:
        """Raises ValueError beyond `context` places, dropped ones included."""
        biases.within("aft_local", self.context, x.shape[1])
        bias = self._bias(torch.arange(x.shape[1], device=x.device)[None])
        return self._out(x, average(self.w_k(x), self.w_v(x), bias))

    @property
    @override
    def memory(self) -> Memory:
        return memory.entries(self.window, self.dim, self.dim)

    @override
    def carry(self, x: Stream, state: State, lengths: Lengths) -> tuple[Stream, Entries]:
        """Raises ValueError where a row would have read more than `context` tokens."""
        biases.within_after("aft_local", self.context, length_of(state), lengths, x.shape[1])
        bias = self._bias(state["length"][:, None] + torch.arange(x.shape[1], device=x.device))
        y, after = memory.carry(self.w_k(x), self.w_v(x), bias, state, lengths)
        return self._out(x, y), after

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        """Raises ValueError beyond `context` tokens."""
        biases.within_after("aft_local", self.context, length_of(state), 1, 1)
        y, after = memory.advance(self.w_k(x), self.w_v(x), self._bias(state["length"][:, None]), state, reuse)
        return self._out(x, y), after

    @override
    def views(self, x: Stream) -> list[View]:
        """The biases of the places of `x`, 0 for keys after the query and outside the window."""
        biases.within("aft_local", self.context, x.shape[1])
        bias = self._bias(torch.arange(x.shape[1], device=x.device)[None])
        meaning = "what is added to the key of an earlier token before the exponential, for each query"
        return [View("biases", meaning, ("query", "key"), biases.by_key(bias[0, :, :, 0]))]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        D, L = self.dim, self.window
        bias = price.factors(span.terms(L), self.bias_dim)
        return self.w_k, bias, price.price(span, L, D, D), gate(span.rows * D), self.w_out

    def _bias(self, places: Tensor) -> Tensor:
        return biases.over_lags(self.w, places, self.window)

    def _out(self, x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.w_out(torch.sigmoid(self.w_q(x)) * y)
        return out


@register
class AFTLocalConfig(MixerConfig):
    """AFT with biases inside a window. It reads all of at most `context` tokens."""

    kind: Literal["aft_local"] = "aft_local"
    window: int = Field(32, ge=1, description="tokens with a bias of their own, the current one included")
    bias_dim: int = Field(128, ge=0, description="width of the factors of the biases; 0 for a plain table of them")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"window": 2, "bias_dim": 3}, {"window": 3, "bias_dim": 0}, {"bias_dim": 2})

    @override
    def make(self, layer: Layer) -> AFTLocal:
        """Raises ValueError without a context."""
        if layer.context is None or layer.context < 1:
            raise ValueError(
                f"aft_local needs a context of 1 or more, the places that it has biases for, not {layer.context}"
            )
        return AFTLocal(layer.dim, layer.context, self.window, self.bias_dim)
