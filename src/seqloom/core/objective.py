"""The contract of an objective: what a model is trained to do.

An objective makes batches, computes their losses and scores the model on data that is never trained on. It is a module,
so that it may have parameters of its own (an answer head), which are trained and saved with the run.

    batch → losses (per micro-batch; the trainer adds, weights and differentiates them) → … → score
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from torch import Tensor, nn

from seqloom.core.extras import Extras

Batch: TypeAlias = dict[str, Tensor]
"""the tensors of one step by name, first dimension rows; made on the CPU, and moved to the model's device before use"""
Carried: TypeAlias = dict[str, Tensor]
"""detached tensors that one step passes to the next, by name; checkpoints save them"""
Row: TypeAlias = dict[str, Any]
"""plain JSON"""


@final
@dataclass(frozen=True)
class Pass:
    """What a forward pass over some rows gives: losses, extras, and what the next pass continues from."""

    losses: dict[str, Tensor]
    """scalars by name, means over the targets of these rows; their sum is minimized"""
    extras: Extras = field(default_factory=Extras)
    """the model's auxiliary losses and statistics"""
    carried: Carried = field(default_factory=dict)
    """the `carried` argument of the next pass"""


@final
@dataclass(frozen=True)
class Check:
    """An objective's report on a model in training."""

    note: str
    """text for the progress line"""
    solved: bool
    """whether the task is solved, so that the training ends"""


class Objective(nn.Module, ABC):
    """What a model is trained to do."""

    @abstractmethod
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """The rows of a step, counted from 0; a pure function of (seed, step) and, where it is used, the model."""

    @abstractmethod
    def losses(self, model: nn.Module, batch: Batch, carried: Carried) -> Pass:
        """The losses of a batch or of some of its rows. `carried` is empty at the first step of a run."""

    @abstractmethod
    def score(self, model: nn.Module, held_out: Any) -> Row:
        """A row of scores, with `held_out`: the loss on data that is never trained on.

        The model stays in the mode (training or evaluation) that it is in.
        """

    @abstractmethod
    def summary(self, row: Row) -> str:
        """The row of `score` in a few words, for the terminal."""

    def resize(self, context: int) -> None:
        """Sets the length of the rows of later batches. By default ValueError: the rows have a fixed length."""
        raise ValueError("the rows of this objective have one length: leave context out of training.stages")

    def targets(self, batch: Batch) -> int:
        """How many targets the losses of these rows are means over; by default one per row. At least 1."""
        return len(next(iter(batch.values())))

    def count_tokens(self, batch: Batch) -> int:
        """How many tokens are read of these rows; by default as many as there are targets."""
        return self.targets(batch)

    def row_size(self, batch: Batch) -> tuple[int, int] | None:
        """The tokens and the outputs of a row, where all rows of all batches are alike; None, by default, elsewhere."""
        return None

    def uncaptured_reason(self, pieces: int) -> str:
        """Why steps of so many micro-batches cannot be recorded as a graph, in a few words; by default "": they can.

        They can where all batches have the same shapes and the same numbers of targets, and `losses` reads no number
        from the device and carries nothing.
        """
        return ""

    def pass_steps(self, seed: int) -> int:
        """The number of steps in one pass over the data. By default ValueError: batches do not end with a pass."""
        raise ValueError("this objective has no passes that end with a batch, as a model that counts needs them")

    def description(self, seed: int) -> str:
        """What the batches are made of, in a few words, where the run's settings do not say it; by default empty."""
        return ""

    def check(self, model: nn.Module, step: int) -> Check | None:
        """A report on the model after `step` steps; None, as by default, for steps without a report."""
        return None
