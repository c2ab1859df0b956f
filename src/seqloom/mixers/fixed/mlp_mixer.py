"""MLP-Mixer: attention replaced by a network over positions, the same for every channel.

    h_s = GELU(Σ_j w_1sj x_j + b_1s)               S hidden units; j runs over L = `context` positions
    y_t = Σ_s w_2ts h_s + b_2t                     channels are not mixed

Causal, S is `expand` times L and unit s belongs to position ⌊s / expand⌋: w_1sj is 0 for positions j after it, and
w_2ts is 0 for units of positions after t. Both layers need this: if only one had it, a token would depend on later ones
through the other. A state then holds x and h of all positions. Bidirectional, S may be any number, `hidden`.

A row of T < L tokens is a row of L whose other positions are 0. Before training w_1 and w_2 are N(0, 1/n), n the terms
of the longest sum, and biases 0.

Source: Tolstikhin et al., MLP-Mixer, arXiv:2105.01601, Eq. 1, its first line: the residual, the norm and the network
over channels are the block's. The causal form is ours.
"""

from abc import ABC
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, final

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
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.fixed.triangular import triangular
from seqloom.ops.fixed.triangular.reference import price
from seqloom.ops.past.cache import with_past
from seqloom.ops.past.limit import positions

TRAITS = Traits(causal="always", streams=True, state="grows")
NEVER = Traits(causal="never", streams=False, state="none")


class TokenMLP(Mixer, ABC):
    """The weights of both forms, for `hidden` units and at most `context` positions."""

    def __init__(self, dim: int, context: int, hidden: int) -> None:
        super().__init__()
        self.dim, self.context = dim, context
        self.w_1, self.b_1 = nn.Parameter(torch.empty(hidden, context)), nn.Parameter(torch.empty(hidden))
        self.w_2, self.b_2 = nn.Parameter(torch.empty(context, hidden)), nn.Parameter(torch.empty(context))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    @torch.no_grad()
    def _initialize(self) -> None:
        for w, b in ((self.w_1, self.b_1), (self.w_2, self.b_2)):
            nn.init.normal_(w, std=w.shape[1] ** -0.5)
            nn.init.zeros_(b)


@final
class MLPMixer(TokenMLP, CachingMixer):
    """The causal form, with triangular weights. State: x (B, C, D) and h (B, C, expand D) of all positions."""

    def __init__(self, dim: int, context: int, expand: int) -> None:
        super().__init__(dim, context, expand * context)
        self.expand, self.traits = expand, replace(TRAITS, longest=context)

    @property
    @override
    def state_spec(self) -> StateSpec:
        sizes = {"x": self.dim, "h": self.expand * self.dim}
        return {name: StateEntry((0, size), grows=True, max_slots=self.context) for name, size in sizes.items()}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        """Raises ValueError beyond `context` positions; without a state, positions that are dropped count as well."""
        t = positions("mlp_mixer", self.context, x, state, lengths).clamp(max=self.context - 1)
        times = None if state is None else t
        w_1, w_2, b_1 = self._by_position()
        inputs, x_cache = with_past(state, {"x": x}, lengths, reuse)
        h = gelu(triangular(inputs["x"][:, :, None], w_1, times) + b_1[t][..., None])
        units, h_cache = with_past(state, {"h": h.flatten(2)}, lengths, reuse)
        y = triangular(units["h"].unflatten(2, (self.expand, -1)), w_2, times)[:, :, 0]
        return y + self.b_2[t][..., None], {**x_cache, **h_cache}

    @override
    def plots(self, x: Stream) -> list[View]:
        T, n = x.shape[1], self.expand * x.shape[1]
        unit, position = torch.arange(n, device=x.device) // self.expand, torch.arange(T, device=x.device)
        first = torch.where(position <= unit[:, None], self.w_1[:n, :T], 0.0)
        second = torch.where(unit <= position[:, None], self.w_2[:T, :n], 0.0)
        return _plots(first, second)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n, units = span.rows * self.dim, span.rows * self.dim * self.expand
        first, second = (price(span, self.dim, *sizes) for sizes in ((1, self.expand), (self.expand, 1)))
        return first, _bias_price(units), cost.gelu(units), second, _bias_price(n)

    def _by_position(self) -> tuple[Tensor, Tensor, Tensor]:
        """w_1 (L, expand, L, 1), w_2 (L, 1, L, expand) and b_1 (L, expand)."""
        units = (self.context, self.expand)
        return (
            self.w_1.unflatten(0, units)[..., None],
            self.w_2.unflatten(1, units)[:, None],
            self.b_1.unflatten(0, units),
        )


@final
class BidirectionalMLPMixer(TokenMLP, BidirectionalMixer):
    """The bidirectional form, over whole rows of at most `context` tokens."""

    def __init__(self, dim: int, context: int, hidden: int) -> None:
        super().__init__(dim, context, hidden)
        self.traits = replace(NEVER, longest=context)

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        """Raises ValueError beyond `context` positions; dropped ones count as well."""
        positions("mlp_mixer", self.context, x)
        T = x.shape[1]
        h = gelu(self.w_1[:, :T] @ x + self.b_1[:, None])  # (B, S, D); x is 0 at padding
        return self.w_2[:T] @ h + self.b_2[:T, None]

    @override
    def plots(self, x: Stream) -> list[View]:
        return _plots(self.w_1[:, : x.shape[1]], self.w_2[: x.shape[1]])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        T, S, D = span.rows, len(self.w_1), self.dim
        first = Cost(mul=S * T * D, add=S * max(T - 1, 0) * D, path=("multiplication", "cumulation"))
        second = Cost(mul=T * S * D, add=T * (S - 1) * D, path=("multiplication", "cumulation"))
        units = S * D if T else 0
        return first, _bias_price(units), cost.gelu(units), second, _bias_price(T * D)


def _bias_price(count: int) -> Cost:
    """The price of adding biases to `count` values."""
    return Cost(add=count, path=("addition",))


def _plots(w_1: Tensor, w_2: Tensor) -> list[View]:
    """The views of w_1 (S, T) and w_2 (T, S)."""
    return [
        View("first layer", "the weight of the input at each position", ("unit", "position"), w_1),
        View("second layer", "the weight of each hidden unit", ("position", "unit"), w_2),
    ]


@register
class MLPMixerConfig(MixerConfig):
    """A network over positions. The same for all channels; it reads at most `context` tokens."""

    kind: Literal["mlp_mixer"] = "mlp_mixer"
    expand: int = Field(1, ge=1, description="hidden units per position of the context")
    hidden: int | None = Field(
        None, ge=1, description="total hidden units, in the bidirectional form; unset: from expand"
    )
    traits: ClassVar = replace(TRAITS, causal="either")
    examples: ClassVar = ({}, {"expand": 2})

    @override
    def make(self, layer: Layer) -> TokenMLP:
        """Raises ValueError without a context."""
        if layer.context is None or layer.context < 1:
            raise ValueError(
                f"mlp_mixer needs a context of 1 or more, the positions of its network, not {layer.context}"
            )
        if not layer.causal:
            return BidirectionalMLPMixer(layer.dim, layer.context, self.hidden or self.expand * layer.context)
        if self.hidden is not None:
            raise ValueError("the causal form of mlp_mixer has hidden units for each position: set expand, not hidden")
        return MLPMixer(layer.dim, layer.context, self.expand)
