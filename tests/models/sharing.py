"""A mixer whose layers share a table of gates and a matrix, for the tests of `MixerConfig.shared_module`.

y_t = (x_t ∘ g_l) W W_s           g_l: row l of the table (depth, D); the table and W_s (D, D) are shared
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.state import Entries, State
from seqloom.mixers.base import PackedMixer

TRAITS = Traits(causal="always", streams=True, state="none")


@final
class Common(nn.Module):
    """What all layers share."""

    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.arange(1.0, depth + 1)[:, None].repeat(1, dim))
        self.w = nn.Linear(dim, dim, bias=False)


@final
class Gated(PackedMixer):
    """Each token for itself."""

    traits = TRAITS

    def __init__(self, dim: int, number: int) -> None:
        super().__init__()
        self.dim, self.number = dim, number
        self.w = nn.Linear(dim, dim, bias=False)

    def mix(self, x: Tensor, state: State | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Entries]:
        assert isinstance(self.shared, Common)
        y = self.shared.w(self.w(x * self.shared.table[self.number]))
        return y, {}

    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        assert isinstance(self.shared, Common)
        return Cost(mul=span.rows * self.dim, path=("multiplication",)), self.w, self.shared.w


class GatedConfig(MixerConfig):
    """A mixer whose layers share gates and a matrix."""

    kind: Literal["gated"] = "gated"
    variant: int = 0
    traits: ClassVar = TRAITS

    def make(self, layer: Layer) -> Gated:
        return Gated(layer.dim, layer.number)

    def shared_module(self, layer: Layer) -> nn.Module:
        return Common(layer.dim, layer.depth)
