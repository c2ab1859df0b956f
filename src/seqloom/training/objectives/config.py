"""The settings of an objective: the data that it reads, and its conditions on the model's sizes."""

from abc import ABC, abstractmethod
from typing import ClassVar

from seqloom.core.config import Config
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Objective
from seqloom.data.config import DataConfig
from seqloom.data.tokens import Tokens


class ObjectiveConfig(Config, ABC):
    """The settings of one kind of objective."""

    kind: str
    reads_text: ClassVar[bool] = True
    """whether the run has a text: `data.source`"""
    causal: ClassVar[bool] = True
    """whether it is for models that predict a position from those before it alone, or for those that read all"""
    packs: ClassVar[bool] = False
    """whether it reads packed documents: `data.packed`"""
    labelled: ClassVar[bool] = False
    """whether it reads examples with labels: `data.labels`"""
    paired: ClassVar[bool] = False
    """whether it reads pairs of a source and a target"""
    plays: ClassVar[bool] = False
    """whether it reads episodes of agents"""
    acts: ClassVar[bool] = False
    """whether a batch is what the model does in the environment that `data.source` names"""
    resizes: ClassVar[bool] = False
    """whether its rows can be of any length: `Objective.resize`"""
    least_context: ClassVar[int] = 1
    """the shortest row, in tokens, that it can learn from"""
    uses_length: ClassVar[bool] = False
    """whether a run of another number of steps is another run"""

    def data_identity(self, data: DataConfig) -> str:
        """The entry for the text in the identity of a run that reads none."""
        return ""

    def sized(self, model: ModelConfig) -> ModelConfig:
        """The settings of the model with the sizes that the objective determines; by default as they are."""
        return model

    def vocab(self, tokens: int) -> int:
        """The vocabulary of the model, given that of the tokenizer."""
        return tokens

    @abstractmethod
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> Objective:
        """The objective for a model of these settings and `rows` rows per step.

        `tokens` is the text to train on: None where the objective reads none, or is only to score.
        """
