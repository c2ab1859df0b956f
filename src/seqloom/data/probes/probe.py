"""The contract of a probe: rows of tokens in which some positions ask for earlier tokens.

Every probe can be answered in full from the tokens up to the question (`optimum` is 1), and its answers are drawn so
that a model which does not look back is right in `chance` of the cases, whatever it guesses.
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
"""the first step whose rows are never trained on"""
LONGEST = 2**20
"""tokens of a row at most"""


@final
@dataclass(frozen=True, eq=False)
class Questions:
    """A batch. tokens (B, T): what is read; targets (B, T): the right answers, 0 where nothing is asked.

    distance (B, T): tokens back to the one that must be known; 0 where nothing is asked.
    """

    tokens: Ints
    targets: Ints
    distance: Ints

    @property
    def scored(self) -> npt.NDArray[np.bool_]:
        """(B, T): the positions whose answers count."""
        return self.distance > 0


class Probe(Config, ABC):
    """The settings of one kind of probe, and the rows that they make."""

    name: ClassVar[str]
    optimum: ClassVar[float] = 1.0
    """accuracy of a reader who remembers all"""

    @classmethod
    @abstractmethod
    def at(cls, difficulty: int) -> dict[str, int]:
        """The settings at a difficulty, from 1 on: each has about twice as much to remember as the one before it."""

    @property
    @abstractmethod
    def vocab(self) -> int:
        """Ids lie in 0 … vocab - 1, those of answers too."""

    @property
    @abstractmethod
    def row_tokens(self) -> int:
        """Tokens of a row."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """Expected accuracy of a model that reads only the token that asks."""

    @property
    def summary(self) -> int | None:
        """The position whose stream alone answers, with no token read after it; None for probes without one."""
        return None

    @abstractmethod
    def drawn(self, draws: Draws) -> Questions:
        """Rows made of these draws."""

    def questions(self, seed: int, step: int, rows: int) -> Questions:
        """The batch of a step, counted from 0; sample step · rows + r is row r, whatever `rows` is.

        Rows to be judged by begin at step `HELD_OUT`. ValueError where step or rows are negative.
        """
        require_seed(seed)
        if step < 0 or rows < 1:
            raise ValueError(f"a batch needs step >= 0 and rows >= 1, not {step} and {rows}")
        settings = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return self.drawn(Draws(f"{self.name} {settings} {seed}", step * rows, rows))


def empty(rows: int, positions: int) -> tuple[Ints, Ints, Ints]:
    """Tokens, targets and distances (rows, positions) of nothing but 0."""
    tokens, targets, distance = (np.zeros((rows, positions), np.int64) for _ in range(3))
    return tokens, targets, distance
