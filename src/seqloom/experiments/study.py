"""A study: stages of cells. A cell is a run or a measurement: settings in, rows of one declared schema out.

    def stages(results):                      a generator; it goes on when all cells of the stage have ended
        yield [RunCell(...), RunCell(...)]    cells of a stage do not depend on each other
        yield [Race(...)]                     and may read the rows of earlier stages, here from `results`

`runner.run` performs them: in this process, in several, or on a cluster. A cell's folder is OUT/NAME. Its rows are
saved there (`results`), so that an interrupted study goes on cell by cell.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from pydantic import BaseModel, ConfigDict

from seqloom.core.progress import Say, Show
from seqloom.runs.layout import Run, open_run
from seqloom.training.config import RunConfig
from seqloom.training.loop import NotFinite
from seqloom.training.train import train

if TYPE_CHECKING:
    from seqloom.experiments.results import Results


class Row(BaseModel):
    """A row of results. Subclasses declare the fields; anything else, and numbers that are not finite, are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class Stopped(Exception):
    """A signal stopped a cell, which was saved; `code` is the exit code of a process that a signal ends."""

    def __init__(self, name: str, code: int, rows: Sequence[Row] | None = None) -> None:
        """`rows` are those of the cell, where it had just ended when the signal came."""
        super().__init__(f"stopped and saved; the same command goes on with {name}")
        self.code = code
        self.rows = rows


@dataclass(frozen=True)
class Cell(ABC):
    """One run or one measurement of a study. It must be picklable: other processes run it too."""

    name: str
    """its folder beneath the study's, unique in the study"""
    alone: ClassVar[bool] = False
    """whether it needs the machine to itself, as everything that is timed does"""
    schema: ClassVar[type[Row]]
    """of its rows"""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Plain JSON of everything that its rows depend on: rows of other settings are not reused."""

    @abstractmethod
    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """Runs the cell and returns its rows.

        `Stopped` where a signal ended it; any other error makes the cell a failed one.
        """

    def check(self, folder: Path) -> None:
        """Raises ValueError where the folder holds something that the cell cannot go on with."""
        return

    def tidy(self, folder: Path) -> None:
        """Removes what is not needed once the rows are saved."""
        return

    def steps(self) -> list[tuple[RunConfig, float]]:
        """(settings, number of training steps) of every model that it trains or times, for the plan."""
        return []

    def text(self, rows: Sequence[Any]) -> str:
        """Its rows in a few words, for the progress table."""
        return "done"


@dataclass(frozen=True)
class RunCell(Cell):
    """A training run in the cell's folder; subclasses define the rows that are read from it.

    A NaN loss is a result, not a failure.
    """

    config: RunConfig
    identity: dict[str, Any] = field(compare=False, hash=False)
    """`training.preparation.identity` of the settings and the text"""
    allow_drift: bool = False
    scoring: float = 0.0
    """training steps that scoring the held-out text takes, about"""

    @property
    def settings(self) -> dict[str, Any]:
        """The run's identity, and how many batches it is trained for."""
        return {"run": self.identity, "batches": self.config.training.batches}

    def check(self, folder: Path) -> None:
        """Raises ValueError where the folder holds a run of other settings, and names them."""
        if (folder / "config.json").exists():
            open_run(folder, self.identity, create=False)

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """Trains to the end, from where an earlier call stopped."""
        try:
            outcome = train(self.config, folder, allow_drift=self.allow_drift, say=say, show=show)
        except NotFinite as error:
            return self.read(Run(folder), str(error))
        rows = self.read(outcome.run, None) if outcome.asked is None else None
        if outcome.signal is not None:
            raise Stopped(self.name, 128 + int(outcome.signal), rows)
        assert rows is not None
        return rows

    @abstractmethod
    def read(self, run: Run, failed: str | None) -> Sequence[Row]:
        """The rows of a run that was trained to its end, or that `failed`: whose loss became NaN."""

    def steps(self) -> list[tuple[RunConfig, float]]:
        """Its batches, and what its scores take."""
        return [(self.config, self.config.training.batches + self.scoring)]


def scoring(config: RunConfig, tokens: int) -> float:
    """Training steps that all scores of a held-out text of so many tokens take: forward is a third of a step."""
    every = config.training.evaluate_every or config.training.batches
    scores = max(1, -(-config.training.batches // every))
    return scores * tokens / (config.training.batch * config.model.context) / 3


@final
@dataclass(frozen=True)
class Study:
    """Cells in stages, in a folder that belongs to `settings`: what all cells share."""

    name: str
    settings: dict[str, Any]
    stages: "Callable[[Results], Iterator[Sequence[Cell]]]"
