"""Active memory: attention replaced by a gated convolution, which updates all positions of a memory at once.

    g = σ(U * x + b_g),   r = σ(R * x + b_r)                the memory x: one vector per token, as long as the sequence
    y = g ∘ x + (1 - g) ∘ tanh(W * (r ∘ x) + b)             (W * x)_t = Σ_{l<K} x_{t-l} W_l, K = `kernel`, matrices

Nothing is read by its content: each position is rewritten from the K tokens up to it. Bidirectional, the sums run over
the (K-1)/2 tokens before and after it. A state holds the last K-1 of x and of r ∘ x.

Before training W, U and R are variance-preserving and biases 0.

Source: Dowdell and Zhang, arXiv:1912.11959, who put convolutions of an active memory in place of self-attention; the
gates are those of the convolutional GRU of the Neural GPU, Kaiser and Sutskever, arXiv:1511.08228, section 2, in the
form of the first author's program of it. Built from that program and the abstract, since the paper's text was not at
hand: its names of further operators, its kernel and its choice of gates are not confirmed. It differs from the Neural
GPU in that a layer is applied once, not once per token with the same weights, that the memory has one row and not
several, and in the causal form.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.lag_sum import centered, taps, window

TRAITS = Traits(causal="always", streams=True, state="window")


class GatedConvolution(Mixer, ABC):
    """The weights of both forms: taps (K, D, D) of the two gates and of the new content."""

    def __init__(self, dim: int, kernel: int) -> None:
        super().__init__()
        self.dim, self.kernel = dim, kernel
        self.w_g, self.w_r, self.w = (nn.Parameter(torch.empty(kernel, dim, dim)) for _ in range(3))
        self.b_g, self.b_r, self.b = (nn.Parameter(torch.empty(dim)) for _ in range(3))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    @override
    def plots(self, x: Stream) -> list[View]:
        return [taps.view(self.w)]

    def price_with(self, span: Span, summed: Cost) -> Iterable[Cost | nn.Module]:
        """The chain, with the price of one convolution."""
        n = span.rows * self.dim
        bias = Cost(add=n, path=("addition",))
        product = Cost(mul=n, path=("multiplication",))
        tanh = Cost(mul=n, add=2 * n, div=n, exp=n, path=("multiplication", "exponentiation", "addition", "division"))
        other_gate = (summed + bias + sigmoid(n)).parallel()
        mixture = Cost(mul=2 * n, add=2 * n, path=("multiplication", "addition"))
        return summed, bias, sigmoid(n), other_gate, product, summed, bias, tanh, mixture

    def _initialize(self) -> None:
        for w, b in ((self.w_g, self.b_g), (self.w_r, self.b_r), (self.w, self.b)):
            nn.init.normal_(w, std=(self.kernel * self.dim) ** -0.5)
            nn.init.zeros_(b)


@final
class ActiveMemory(GatedConvolution, CachingMixer):
    """The causal form. State: the last K-1 of x and of r ∘ x (B, K-1, D)."""

    traits = TRAITS

    @property
    @override
    def state_spec(self) -> StateSpec:
        past = StateEntry((self.kernel - 1, self.dim))
        return {"x": past, "kept": past}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        r_logits, _ = window.carry(x, self.w_r, state, "x", lengths)  # reads the ring before x is written into it
        g_logits, x_entry = window.carry(x, self.w_g, state, "x", lengths, reuse)
        g = torch.sigmoid(g_logits + self.b_g)
        r = torch.sigmoid(r_logits + self.b_r)
        summed, kept_entry = window.carry(r * x, self.w, state, "kept", lengths, reuse)
        return g * x + (1 - g) * torch.tanh(summed + self.b), {**x_entry, **kept_entry}

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.price_with(span, taps.price(span, self.dim, self.kernel, self.dim))


@final
class BidirectionalActiveMemory(GatedConvolution, BidirectionalMixer):
    """The bidirectional form, over whole rows."""

    traits = Traits(causal="never", streams=False, state="none")

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        g = torch.sigmoid(centered.sum_centered(x, self.w_g) + self.b_g)
        r = torch.sigmoid(centered.sum_centered(x, self.w_r) + self.b_r)
        return g * x + (1 - g) * torch.tanh(
            centered.sum_centered(r * x, self.w) + self.b
        )  # x is 0 at padding, so r ∘ x is

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.price_with(span, centered.price(span, self.dim, self.kernel // 2 + 1, self.dim))


@register
class ActiveMemoryConfig(MixerConfig):
    """A gated convolution over the tokens. The context only sizes the model's positions."""

    kind: Literal["active_memory"] = "active_memory"
    kernel: int = Field(3, ge=1, description="width of the convolutions, in tokens")
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = ({}, {"kernel": 5})

    @override
    def make(self, layer: Layer) -> GatedConvolution:
        if layer.causal:
            return ActiveMemory(layer.dim, self.kernel)
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel {self.kernel} has no middle: the bidirectional form needs an odd one")
        return BidirectionalActiveMemory(layer.dim, self.kernel)
