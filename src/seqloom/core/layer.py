"""What a mixer is told about the layer that it is built for."""

from dataclasses import dataclass
from typing import final

from torch import nn

from seqloom.core.arguments import count, describe_value
from seqloom.core.position import PositionConfig


@final
@dataclass(frozen=True)
class Layer:
    """The arguments with which a model builds a mixer. The defaults are those of a mixer outside a model."""

    dim: int
    """channels, D"""
    context: int | None
    """tokens that the mixer looks back on; None for all"""
    causal: bool = True
    """whether no output may depend on a later token"""
    number: int = 0
    """the layer's number among the layers of its kind, from 0"""
    depth: int = 1
    """the number of layers of its kind"""
    position: PositionConfig | None = None
    """the positional encoding that acts inside the mixer, in one of `MixerConfig.places`"""
    shared: nn.Module | None = None
    """the module that `MixerConfig.shared_module` made for all layers with the same settings"""

    def __post_init__(self) -> None:
        if not isinstance(self.causal, bool):
            raise TypeError(f"causal is True or False, not {describe_value(self.causal)}")
        count("layer", self.number)
        count("depth", self.depth, least=1)
        if self.number >= self.depth:
            raise ValueError(f"there is no layer {self.number} in {self.depth}: layers count from 0")
