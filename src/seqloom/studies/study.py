"""A study consists of stages of cells. A cell is a training or a measurement with settings, and returns rows.

    def stages(results):                      a generator; it continues when all cells of a stage have ended
        yield [RunCell(...), RunCell(...)]    cells of a stage do not depend on each other
        yield [Race(...)]                     and may read the rows of earlier stages, here from `results`

`runner.run` runs them in this process, in several, or on a cluster. A cell's folder is OUT/NAME. Its rows are saved
there (module `results`), so that an interrupted study continues with the next cell.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from pydantic import BaseModel, ConfigDict
from typing_extensions import override

from seqloom.core.progress import Say, Show
from seqloom.core.without_values import without_values
from seqloom.runs.code import Codes, codes
from seqloom.runs.layout import Run, identity, open_run
from seqloom.training.config import RunConfig
from seqloom.training.losses import NotFinite
from seqloom.training.train import train

if TYPE_CHECKING:
    from seqloom.studies.results import Results


def folder_name(source: str) -> str:
    """What a cell of a source is called in the name of its folder."""
    return source.replace(":", "-").replace("/", "-")


def require_distinct(study: str, grid: Mapping[str, Sequence[object]]) -> None:
    """ValueError where a list of a study's grid, by its name, is empty or has a value twice."""
    for name, values in grid.items():
        if not values or len(set(values)) < len(values):
            raise ValueError(f"{study} needs {name} that differ, not {', '.join(map(str, values)) or 'none'}")


class Row(BaseModel):
    """A row of results. Subclasses declare the fields; other fields and numbers that are not finite are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class Stopped(Exception):
    """A signal stopped a cell, which was saved. `code` is the exit code for that signal."""

    def __init__(self, name: str, code: int, rows: Sequence[Row] | None = None) -> None:
        """`rows` are the rows of the cell if it had ended when the signal came."""
        super().__init__(f"stopped and saved; the same command continues with {name}")
        self.code = code
        self.rows = rows


@dataclass(frozen=True)
class Cell(ABC):
    """One training or measurement of a study. It must be picklable, since other processes may run it."""

    name: str
    """the name of its folder in the study's folder, unique in the study"""
    alone: ClassVar[bool] = False
    """whether it needs the machine alone, because it is timed"""
    unplanned: ClassVar[str] = ""
    """what it does besides training and scoring, whose time no plan has"""
    schema: ClassVar[type[Row]]
    """the class of its rows"""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that its rows depend on, as plain JSON: saved rows of other settings are not reused."""

    @property
    def code(self) -> Codes:
        """The codes of the mixers that its rows depend on (`seqloom.runs.code`); by default none."""
        return {}

    @final
    @property
    def key(self) -> str:
        """The digest under which its rows are saved: of its settings, and of its codes where it has some."""
        return identity({**self.settings, **({"code": self.code} if self.code else {})})

    @property
    def about(self) -> str | None:
        """The name of the contender that it is about, where it is about one alone."""
        return None

    @abstractmethod
    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """Runs the cell and returns its rows.

        Raises `Stopped` where a signal ended it; after any other error the cell counts as failed.
        """

    def check(self, folder: Path) -> None:
        """Raises ValueError where the folder holds something that the cell cannot continue."""
        return

    def tidy(self, folder: Path) -> None:
        """Removes what is not needed once the rows are saved."""
        return

    def steps(self) -> list[tuple[RunConfig, float]]:
        """For a plan, (settings, number of training steps) of every model that it trains or times."""
        return []

    def text(self, rows: Sequence[Any]) -> str:
        """The rows in a few words, for the progress table."""
        return "done"


@dataclass(frozen=True)
class RunCell(Cell):
    """A training in the cell's folder; subclasses define the rows that are read from it.

    A run whose loss became NaN counts as a result, not as a failure.
    """

    config: RunConfig
    identity: dict[str, Any] = field(compare=False, hash=False)
    """`training.preparation.identity` of the settings and the text"""
    allow_drift: bool = False
    scoring: float = 0.0
    """about how many training steps take as long as scoring the held-out text"""

    @property
    def settings(self) -> dict[str, Any]:
        """The identity of the run, and its number of batches."""
        return {"run": self.identity, "batches": self.config.training.batches}

    @property
    @override
    def code(self) -> Codes:
        return codes(self.config)

    def describe_training(self) -> dict[str, Any]:
        """What a row says of the training and of its layered model: its source, its sizes, its parameters."""
        training, model = self.config.training, self.config.layered_model
        with without_values():
            whole = model.build()
        return {
            "source": self.config.data.source,
            "seed": training.seed,
            "lr": training.lr,
            "batches": training.batches,
            "batch": training.batch,
            "dim": model.dim,
            "depth": model.depth,
            "parameters": sum(tensor.numel() for tensor in whole.parameters()),
        }

    def check(self, folder: Path) -> None:
        """Raises ValueError, which names the settings, where the folder holds a run with other settings."""
        if (folder / "config.json").exists():
            open_run(folder, self.identity, create=False)

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """Trains to the end, from the last checkpoint of an earlier call if there is one."""
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
        """The rows of a run that was trained to its end; `failed` is the reason where its loss became NaN."""

    def steps(self) -> list[tuple[RunConfig, float]]:
        """The number of steps is that of its batches, plus the steps that take as long as its scores."""
        return [(self.config, self.config.training.batches + self.scoring)]


def scoring(config: RunConfig, tokens: int) -> float:
    """The number of training steps that take as long as all scores of a held-out text of `tokens` tokens.

    A score is a forward pass, which takes a third of a training step.
    """
    every = config.training.evaluate_every or config.training.batches
    scores = max(1, -(-config.training.batches // every))
    return scores * tokens / (config.training.batch * config.model.context) / 3


@final
@dataclass(frozen=True)
class Study:
    """Cells in stages. The study's folder is bound to `settings`, which all cells share."""

    name: str
    settings: dict[str, Any]
    stages: "Callable[[Results], Iterator[Sequence[Cell]]]"
