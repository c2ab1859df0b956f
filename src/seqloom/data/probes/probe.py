"""The contract of a probe: rows of tokens in which some positions ask for earlier tokens.

The tokens up to a question determine its answer (`optimum` is 1). Answers are drawn so that a model that does not look
back is right with probability `chance`, whatever it guesses.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from seqloom.core.config import Config
from seqloom.core.seeds import require_seed
from seqloom.data.probes.draws import Draws, Ints

HELD_OUT = 2**40
"""the first step of the held-out rows, which are never trained on"""
LONGEST = 2**20
"""the most tokens of a row"""


@final
@dataclass(frozen=True, eq=False)
class Questions:
    """A batch of rows with questions.

    tokens (B, T): what is read; targets (B, T): the right answers, 0 where nothing is asked; distance (B, T): how many
    tokens back the earliest token of the text lies that the answer depends on, 0 where nothing is asked.
    """

    tokens: Ints
    targets: Ints
    distance: Ints

    @property
    def scored_positions(self) -> npt.NDArray[np.bool_]:
        """(B, T): the positions whose answers count."""
        return self.distance > 0


class Probe(Config, ABC):
    """The settings of one kind of probe, and the rows that they make."""

    name: ClassVar[str]
    optimum: ClassVar[float] = 1.0
    """accuracy of a model that remembers everything"""

    @classmethod
    @abstractmethod
    def at(cls, difficulty: int) -> dict[str, int]:
        """The settings at a difficulty, from 1 on; each difficulty has about twice as much to remember as the last."""

    @property
    @abstractmethod
    def vocab(self) -> int:
        """The number of ids: those of tokens and answers are 0 … vocab - 1."""

    @property
    @abstractmethod
    def row_tokens(self) -> int:
        """Tokens of a row."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """Expected accuracy of a model that reads only the token of the question."""

    @property
    def summary(self) -> int | None:
        """The position from whose stream alone all answers are predicted; None, as by default, for most probes."""
        return None

    @abstractmethod
    def make_questions(self, draws: Draws) -> Questions:
        """Makes the rows from these random numbers."""

    def questions(self, seed: int, step: int, rows: int) -> Questions:
        """The batch of a step, counted from 0: row r is sample step · rows + r of the stream of the seed.

        Held-out rows begin at step `HELD_OUT`. ValueError for a negative step or less than one row.
        """
        require_seed(seed)
        if step < 0 or rows < 1:
            raise ValueError(f"a batch needs step >= 0 and rows >= 1, not {step} and {rows}")
        settings = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return self.make_questions(Draws(f"{self.name} {settings} {seed}", step * rows, rows))


def empty(rows: int, positions: int) -> tuple[Ints, Ints, Ints]:
    """Tokens, targets and distances (rows, positions), all 0."""
    tokens, targets, distance = (np.zeros((rows, positions), np.int64) for _ in range(3))
    return tokens, targets, distance
