"""The settings of an objective: the data that it reads, and what it asks of the other settings of a run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from seqloom.core.config import Config
from seqloom.core.device import choose_device
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Objective
from seqloom.data.config import DataConfig
from seqloom.data.prepare import Corpus
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.training.capturable import require_graph
from seqloom.training.memory import require_room
from seqloom.training.objectives.conditions import (
    require_carrying,
    require_counting,
    require_shardable,
    require_shared_rows,
    require_whole_rows,
    require_windows,
)

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig


class Prepared(NamedTuple):
    """What a run starts from: its settings with the sizes that follow from its data, and its text if it has one."""

    config: "RunConfig"
    corpus: Corpus | None


class ObjectiveConfig(Config, ABC):
    """The settings of one kind of objective."""

    kind: str
    causal: ClassVar[bool] = True
    """whether it is for models that predict a position from those before it alone, or for those that read all"""
    made_for: ClassVar[str] = ""
    """the kind of model to choose, where only models that are made for the objective learn by it"""
    sized_by_data: ClassVar[bool] = False
    """whether more than the vocabulary of a model follows from its data, so that a price has to read them"""
    trains_exits: ClassVar[bool] = False
    """whether every layer with an output layer of its own learns"""
    resizes: ClassVar[bool] = False
    """whether its rows can be of any length: `Objective.resize`"""
    least_context: ClassVar[int] = 1
    """the shortest row, in tokens, that it can learn from"""
    uses_length: ClassVar[bool] = False
    """whether a run of another number of steps is another run"""
    untimed: ClassVar[str] = ""
    """why a step cannot be timed before the training, in a few words, if so"""

    @property
    def learned_task(self) -> str:
        """What a model learns under it, as `ModelConfig.objective` names it."""
        return self.kind

    def check(self, run: "RunConfig") -> None:
        """Raises ValueError, in one line, where other settings of the run do not fit the objective."""
        self.check_model(run.model)
        self.check_data(run.data)
        require_counting(run)
        require_carrying(run)
        require_whole_rows(run)
        require_windows(run)
        require_shared_rows(run)
        require_shardable(run)
        if run.data.packed:
            self.check_packed(run)

    def check_model(self, model: ModelConfig) -> None:
        """Raises ValueError where the kind of the model is not one that the objective trains."""
        misfit = f"training.objective.kind={self.kind} does not fit model.kind={model.kind}: choose"
        if model.objective is not None and model.objective != self.learned_task:
            raise ValueError(f"{misfit} training.objective.kind={model.objective}")
        if self.made_for and model.objective is None:
            raise ValueError(f"{misfit} model.kind={self.made_for}")
        if model.has_exit_heads and not self.trains_exits:
            raise ValueError(
                f"model.exit_heads=own is not trained by training.objective.kind={self.kind}: "
                "choose training.objective.kind=exits"
            )
        if self.causal != model.causal:
            kind = "masked_token" if self.causal else "next_token"
            raise ValueError(f"{misfit} training.objective.kind={kind}, or another model.kind")
        if model.context < self.least_context:
            raise ValueError(
                f"training.objective.kind={self.kind} needs model.context={self.least_context} or more, "
                f"not {model.context}"
            )

    def check_data(self, data: DataConfig) -> None:
        """Raises ValueError for settings of the data that the objective has no use for."""
        subject, unused = self.unused_data(data)
        for name in unused:
            value, default = getattr(data, name), DataConfig.model_fields[name].default
            stored_before = name == "unwrap" and value is True  # as every run states that was stored before `auto`
            if value != default and not stored_before:
                raise ValueError(f"{subject} no use for data.{name}: leave it out")

    def check_packed(self, run: "RunConfig") -> None:
        """Raises ValueError where it reads no packed documents: `data.packed`."""
        raise ValueError(f"training.objective.kind={self.kind} reads no packed documents: leave data.packed out")

    def unused_data(self, data: DataConfig) -> tuple[str, tuple[str, ...]]:
        """What is trained on, for messages, and the settings of the data that the objective has no use for."""
        return "an objective without labels has", ("labels", "passage")

    def data_identity(self, data: DataConfig) -> str:
        """The entry for the text in the identity of a run that reads none."""
        return ""

    def size_model(self, model: ModelConfig) -> ModelConfig:
        """The settings of the model with the sizes that the objective determines; by default as they are."""
        return model

    def prepare(self, run: "RunConfig") -> Prepared:
        """What a run starts from; by default it reads no text.

        ValueError, before anything is read, where a model of these settings would not fit into the memory.
        """
        if run.training.vectors is not None:
            raise ValueError(
                "training.vectors are of the words of a text, and the objective reads none: leave them out"
            )
        self.require_device(run)
        return Prepared(run, None)

    def require_device(self, run: "RunConfig") -> None:
        """Raises ValueError where the device has no room for the run, or cannot do it."""
        device = choose_device(run.training.device)
        require_graph(run.training, device)
        require_room(run.model, device, run.training)

    def with_corpus(self, run: "RunConfig", corpus: Corpus) -> "RunConfig":
        """The settings of a run with what follows from a corpus: the size of the vocabulary."""
        return self.with_vocab(run, corpus.tokenizer)

    def with_vocab(self, run: "RunConfig", tokenizer: Tokenizer) -> "RunConfig":
        """The settings of a run with the vocabulary of the tokenizer."""
        return with_sizes(run, vocab=self.vocab(tokenizer.vocab))

    def vocab(self, tokens: int) -> int:
        """The vocabulary of the model, given that of the tokenizer."""
        return tokens

    def plain_text(self, data: DataConfig) -> tuple[Corpus, Tokenizer | None] | None:
        """The text of these settings and the tokenizer that they give; None where it reads no plain text."""
        return None

    def encode(self, source: str, column: str | None, data: Mapping[str, Any], model: Any) -> Tokens | None:
        """The tokens of another source for a trained model, by its run's settings of the data; None for plain text.

        `column` is that of a table, where one is asked for. ValueError for a source that does not fit the model.
        """
        return None

    @abstractmethod
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> Objective:
        """The objective for a model of these settings and `rows` rows per step.

        `tokens` is the text to train on: None where the objective reads none, or is only to score.
        """

    @abstractmethod
    def build_on_random(self, model: ModelConfig, rows: int) -> Objective:
        """The objective on random data that fill the context, to time its steps. ValueError where it is `untimed`."""


def with_sizes(run: "RunConfig", **sizes: object) -> "RunConfig":
    """The settings of a run with other sizes of its model."""
    return run.model_copy(update={"model": run.model.model_copy(update=sizes)})
