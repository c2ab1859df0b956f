"""The settings that a model of any kind has; those of models made of layers are in `seqloom.core.layered`."""

from abc import ABC, abstractmethod
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from seqloom.core.config import Config
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import Model
from seqloom.core.without_values import without_values


class ModelConfig(Config, ABC):
    """The settings of a model of any kind; each kind adds its own."""

    kind: str = Field(description="the kind of the model")
    vocab: int = Field(5000, ge=1, le=2**24, description="entries of the vocabulary")
    context: int = Field(
        128, ge=1, le=2**24, description="tokens of a window, and the number of tokens that a mixer attends to"
    )
    causal: ClassVar[bool] = True
    """whether a position is predicted from those before it alone"""
    fits: ClassVar[bool] = False
    """whether the model learns by `Model.fit` and `Model.end_pass`, without gradients and without an optimizer"""
    objective: ClassVar[str | None] = None
    """the only objective that the kind is trained under, where there is one"""
    looks_up: ClassVar[bool] = False
    """whether the model uses a store, which its settings `store` and `k` describe (`Model.take_lookup`)"""
    grows: ClassVar[bool] = False
    """whether the sizes of the buffers depend on what the model has learned, so that only a checkpoint knows them"""

    @property
    def mixers(self) -> tuple[MixerConfig, ...]:
        """The mixer of each layer, in order; by default there are none."""
        return ()

    @property
    def has_exit_heads(self) -> bool:
        """Whether every layer has its own output layer, to be trained under an objective where every layer predicts."""
        return False

    @property
    def distinct(self) -> int | None:
        """How many of the first layers differ in price or sizes, where layers repeat; None where no layers repeat."""
        return None

    @abstractmethod
    def build(self, layers: int | None = None) -> Model:
        """The model, freshly initialized; with `layers`, only that many of its first layers are built.

        ValueError where the settings do not fit each other.
        """

    def tensors(self) -> dict[str, Tensor]:
        """The parameters and buffers of the model by name, on the meta device, where they take no memory."""
        return weightless(self).state_dict()


def weightless(config: ModelConfig) -> Model:
    """The model with its distinct layers alone, on the meta device: it takes no memory. ValueError as of `build`."""
    with without_values():
        return config.build(layers=config.distinct)
