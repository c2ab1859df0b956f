"""The contract of a series: rows of numbers, and at some times the numbers to be predicted there."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

Floats: TypeAlias = npt.NDArray[np.float64]
HELD_OUT = 2**40
"""the first step of the rows that are never trained on, where rows are drawn"""
SCALED_BY = 256
"""rows by which a drawn series is scaled"""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """A batch of rows.

    values (B, T, C): what is read; targets (B, T, Y): what is to be predicted from the values up to that time; scored
    (B, T): the times whose predictions count. optimum (B, T, Y): the best prediction, None where it is not known.
    """

    values: Floats
    targets: Floats
    scored: npt.NDArray[np.bool_]
    optimum: Floats | None = None


@final
@dataclass(frozen=True)
class Scale:
    """The mean and the standard deviation of each column."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


class Series(ABC):
    """Rows of `context` times. A target of a forecast is the value of the next time."""

    name: str
    """the source, as it was given"""
    columns: tuple[str, ...]
    """what is read"""
    outputs: tuple[str, ...]
    """what is predicted"""
    identity: str
    """equal for equal rows"""
    context: int
    """times of a row"""

    @property
    def forecasts(self) -> bool:
        """Whether what is predicted is what is read, one time later."""
        return self.columns == self.outputs

    @property
    @abstractmethod
    def scale(self) -> Scale:
        """The scale of what is read."""

    @property
    @abstractmethod
    def output_scale(self) -> Scale:
        """The scale of what is predicted."""

    @abstractmethod
    def rows(self, seed: int, step: int, count: int) -> Rows:
        """The training rows of a step, counted from 0: a function of (seed, step, count)."""

    @abstractmethod
    def held_out(self, count: int) -> Rows:
        """At most `count` rows that are never trained on, the same at each call."""


class DrawnSeries(Series, ABC):
    """A series whose rows are drawn: as many as there are steps."""

    def __init__(self, context: int) -> None:
        self.context = context

    @abstractmethod
    def draw(self, generator: np.random.Generator, count: int) -> Rows:
        """`count` rows by these random numbers."""

    @override
    def rows(self, seed: int, step: int, count: int) -> Rows:
        return self.draw(np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, step, 0])), count)

    @override
    def held_out(self, count: int) -> Rows:
        return self.rows(0, HELD_OUT, count)

    @property
    @override
    def scale(self) -> Scale:
        return scale_of(self.held_out(SCALED_BY).values.reshape(-1, len(self.columns)))

    @property
    @override
    def output_scale(self) -> Scale:
        rows = self.held_out(SCALED_BY)
        return scale_of(rows.targets[rows.scored])


def forecast_rows(values: Floats, first: int = 0, optimum: Floats | None = None) -> Rows:
    """Rows that read values (B, T+1, C) up to the last but one, and predict the next of each time, from `first` on."""
    read, targets = values[:, :-1], values[:, 1:]
    scored = np.zeros(read.shape[:2], bool)
    scored[:, first:] = True
    return Rows(read, targets, scored, optimum)


def scale_of(values: Floats) -> Scale:
    """The scale of each column of values (N, C)."""
    return Scale(tuple(map(float, values.mean(0))), tuple(map(float, values.std(0))))
