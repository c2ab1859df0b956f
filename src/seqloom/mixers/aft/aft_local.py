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
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate
from seqloom.core.layer import Layer
from seqloom.core.memory import Memory
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State
from seqloom.core.view import View
from seqloom.mixers.base import PackedMixer
from seqloom.ops.biased_average import biases, memory, price
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
        super().reset(std)
        with torch.no_grad():
            self.w.copy_(biases.first(self.context, self.bias_dim, self.window))

    @property
    @override
    def memory(self) -> Memory:
        return memory.entries(self.window, self.dim, self.dim)

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        """Raises ValueError beyond `context` positions; without a state dropped ones count as well."""
        t = biases.positions("aft_local", self.context, x, state, lengths)
        w = biases.over_lags(self.w, t, self.window)
        k = self.w_k(x)
        v = self.w_v(x)
        average, entries = memory.carry(k, v, w, state, lengths)
        q = self.w_q(x)
        y = torch.sigmoid(q) * average
        return self.w_out(y), entries

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        # As `read`; a token is written into the window, which is not copied.
        t = biases.positions("aft_local", self.context, x[:, None], state)
        w = biases.over_lags(self.w, t, self.window)
        average, entries = memory.advance(self.w_k(x), self.w_v(x), w, state, reuse)
        y = torch.sigmoid(self.w_q(x)) * average
        return self.w_out(y), entries

    @override
    def views(self, x: Stream) -> list[View]:
        t = biases.positions("aft_local", self.context, x)
        bias = biases.over_lags(self.w, t, self.window)
        meaning = "what is added to the key of an earlier token before the exponential, for each query"
        return [View("biases", meaning, ("query", "key"), biases.by_key(bias[0, :, :, 0]))]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        D, L = self.dim, self.window
        bias = price.factors(span.terms(L), self.bias_dim)
        return self.w_k, bias, price.price(span, L, D, D), gate(span.rows * D), self.w_out


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
