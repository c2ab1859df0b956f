"""What says after which layer a token has its output, by weights of its own; the model's own stay as they are."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.config import Config

Kind: TypeAlias = Literal["learned"]


@final
class ClassifierConfig(Config):
    """The kind of a classifier, and the sizes of the model that it is of."""

    kind: Kind = Field("learned", description="learned: whether later layers would change the likeliest token (CALM)")
    depth: int = Field(ge=2, le=1000, description="layers of the model: L")
    dim: int = Field(ge=1, le=2**17, description="channels of a token")


@final
@dataclass(frozen=True)
class Seen:
    """What a model made of B windows of T tokens."""

    streams: list[Float[Tensor, "B T D"]]
    """after each layer"""
    same: Bool[Tensor, "B T L"]
    """whether the likeliest next token after a layer is that after the last"""


class Classifier(nn.Module, ABC):
    """Weights over the streams of a model."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def loss(self, seen: Seen) -> Float[Tensor, ""]:
        """What training makes small: the mean over the tokens of some windows."""

    @abstractmethod
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float) -> Int[Tensor, "B T"]:
        """After which layer, from 1 to L, each token has its output, given the streams after all layers."""


class Confident(Classifier, ABC):
    """One that says after each layer but the last how sure a token is; it ends where that reaches a threshold."""

    @abstractmethod
    def confidence(self, layer: int, x: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """From 0 to 1, given the stream after a layer, from 1 to L - 1."""

    @override
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float) -> Int[Tensor, "B T"]:
        sure = [self.confidence(layer, x) >= threshold for layer, x in enumerate(streams[:-1], 1)]
        return torch.stack([*sure, torch.ones_like(sure[0])], -1).int().argmax(-1) + 1
