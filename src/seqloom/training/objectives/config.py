"""The settings of an objective: which data it reads, and what it asks of the model's sizes."""

from abc import ABC, abstractmethod
from typing import ClassVar

from seqloom.core.config import Config
from seqloom.core.objective import Objective
from seqloom.data.config import DataConfig
from seqloom.data.prepare import Corpus
from seqloom.models.decoder import DecoderConfig


class ObjectiveConfig(Config, ABC):
    """The settings of one kind of objective."""

    kind: str
    reads_text: ClassVar[bool] = True
    """whether the run has a text: `data.source`"""
    uses_length: ClassVar[bool] = False
    """whether a run of another number of steps is another run"""

    @property
    def data_identity(self) -> str:
        """What stands for the text in the identity of a run that reads none."""
        return ""

    def sized(self, model: DecoderConfig) -> DecoderConfig:
        """The settings of the model with the sizes that the objective determines; by default as they are."""
        return model

    def vocab(self, tokens: int) -> int:
        """The vocabulary of the model, given that of the tokenizer."""
        return tokens

    @abstractmethod
    def build(self, model: DecoderConfig, data: DataConfig, rows: int, corpus: Corpus | None) -> Objective:
        """The objective for a model of these settings and `rows` rows per step.

        `corpus` is the text that was prepared, None where the objective reads none.
        """
