"""The rows of a figure as `seqloom study paper` writes them: its lines, and the seeds of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field

from seqloom.core.files import parse_json, read_text
from seqloom.report.columns import LARGEST, AtLeastOne, Count, Number
from seqloom.report.results import row_of

FORMAT = 1
_LARGEST = 256 << 20
"""the most bytes of the rows of a figure"""
ADVICE = "make them again with `seqloom study paper`, or choose another folder"
Kind: TypeAlias = Literal["curves", "batches", "sweep", "points"]
Column: TypeAlias = Literal["training", "held_out", "seconds", "raced", "parameters"]


class _Row(BaseModel):
    """Columns that no page needs are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


@final
class Origin(_Row):
    """Date, commit, command and machine of the rows."""

    date: str
    commit: str
    command: str
    machine: str


@final
class Figure(_Row):
    """The row of the figure itself: what it shows, its size, its text."""

    name: str
    heading: str
    says: str
    kind: Kind
    over: str
    """the setting that it varies; "" without one"""
    scale: str
    differs: str
    batches: AtLeastOne
    stretch: AtLeastOne
    seeds: AtLeastOne
    paired: bool = False
    """whether the seed draws the order of the batches too, so that runs of the same seed are pairs"""
    notes: list[str]
    text: str
    identity: str
    unigram: Number | None
    floor: Number | None
    origin: Origin


@final
class Cell(_Row):
    """One run: its line and seed, its progress, its size, its losses at the end in nats per token."""

    line: Count
    seed: Count
    series: str
    of: str
    x: Annotated[float | int, Field(gt=0, le=LARGEST)] | None
    """the value of what the figure varies, a whole number where it is written as one"""
    family: str
    batches: Count
    asked: Count
    finished: bool
    failed: str | None
    training: Number | None
    held_out: Number | None
    seconds: Number | None
    raced: Number | None = None
    """seconds of a training step in a race"""
    parameters: Count
    operations: Count

    def value(self, column: Column) -> float | None:
        """The number in a column; None where it has none."""
        numbers = {
            "training": self.training, "held_out": self.held_out, "seconds": self.seconds, "raced": self.raced,
            "parameters": float(self.parameters),
        }  # fmt: skip
        return numbers[column]


@final
class _Median(_Row):
    line: Count
    seed: Count
    first: Count
    last: Count
    loss: Number


@final
class _HeldOut(_Row):
    line: Count
    seed: Count
    step: Count
    loss: Number


@final
class _Batches(_Row):
    line: Count
    seed: Count
    steps: list[Count]
    losses: list[Number]


@final
@dataclass
class Seed:
    """One cell: its row, medians as (first, last, loss), held-out losses as (step, loss).

    `every` has the losses of all batches, in Figure 9 alone.
    """

    row: Cell
    medians: list[tuple[int, int, float]] = field(default_factory=list)
    held_out: list[tuple[int, float]] = field(default_factory=list)
    every: list[tuple[int, float]] = field(default_factory=list)


@final
@dataclass
class Line:
    """One model of the figure."""

    series: str
    of: str
    x: float | None
    family: str
    seeds: list[Seed] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Whether all its cells are done."""
        return all(seed.row.finished for seed in self.seeds)

    @property
    def name(self) -> str:
        """The name of its curve: its series, and that it is unfinished where it is."""
        return self.series if self.is_finished else f"{self.series} (unfinished)"

    def known_values(self, column: Column) -> list[float]:
        """The values of a column, of all seeds that have one."""
        return [value for seed in self.seeds if (value := seed.row.value(column)) is not None]

    def mean(self, column: Column) -> float | None:
        """The mean of a column over the seeds that have a value."""
        values = self.known_values(column)
        return fmean(values) if values else None

    def span(self, column: Column) -> tuple[float, float] | None:
        """The lowest and the highest seed's value of a column; None where fewer than two have one."""
        values = self.known_values(column)
        return (min(values), max(values)) if len(values) > 1 else None


@final
@dataclass(frozen=True)
class Study:
    """The rows of a figure: the row of the figure itself, and its lines in order."""

    figure: Figure
    lines: list[Line]

    @property
    def floor(self) -> list[tuple[str, float]]:
        """The lower bound of the loss on the text, if known, as a horizontal line of the charts."""
        floor = self.figure.floor
        return [] if floor is None else [("lower bound of the loss", floor)]

    @property
    def several(self) -> bool:
        """Whether there are seeds to compare."""
        return self.figure.seeds > 1


def read(path: Path) -> Study:
    """The study in a file of rows. FileNotFoundError, or ValueError in one line, where it cannot be read."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no rows there; `seqloom study paper {path.stem}` makes them")
    rows = [_parse_line(path, number, line) for number, line in enumerate(read_text(path, _LARGEST).splitlines(), 1)]
    if not rows or rows[0].get("row") != "figure":
        raise ValueError(f"{path}: no rows of a figure; {ADVICE}")
    version = rows[0].get("format")
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(f"{path}: format {version} is newer than this seqloom reads; update seqloom")
    figure = row_of(Figure, rows[0], f"{path}: line 1", ADVICE)
    lines = _lines(path, rows)
    if not lines:
        raise ValueError(f"{path}: no row of a run of the figure; {ADVICE}")
    return Study(figure, lines)


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    """The object in a line. ValueError for anything else."""
    try:
        row = parse_json(line)
    except ValueError as error:
        raise ValueError(f"{path}: line {number:,}: not JSON ({error}); {ADVICE}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{path}: line {number:,}: no row of a figure; {ADVICE}")
    return row


def _lines(path: Path, rows: list[dict[str, Any]]) -> list[Line]:
    """The lines of a figure with their seeds, from the rows below that of the figure."""
    lines: dict[int, Line] = {}
    seeds: dict[tuple[int, int], Seed] = {}
    for number, row in enumerate(rows[1:], 2):
        where = f"{path}: line {number:,}"
        match row.get("row"):
            case "cell":
                cell = row_of(Cell, row, where, ADVICE)
                line = lines.setdefault(cell.line, Line(cell.series, cell.of, cell.x, cell.family))
                seeds[cell.line, cell.seed] = Seed(cell)
                line.seeds.append(seeds[cell.line, cell.seed])
            case "median":
                median = row_of(_Median, row, where, ADVICE)
                _seed(seeds, median, where).medians.append((median.first, median.last, median.loss))
            case "held-out":
                score = row_of(_HeldOut, row, where, ADVICE)
                _seed(seeds, score, where).held_out.append((score.step, score.loss))
            case "batches":
                batches = row_of(_Batches, row, where, ADVICE)
                if len(batches.steps) != len(batches.losses):
                    raise ValueError(f"{where}: not as many losses as steps; {ADVICE}")
                _seed(seeds, batches, where).every = list(zip(batches.steps, batches.losses, strict=True))
    return list(lines.values())


def _seed(seeds: Mapping[tuple[int, int], Seed], row: _Median | _HeldOut | _Batches, where: str) -> Seed:
    """The seed that a row belongs to. ValueError where the file has no cell of it before the row."""
    if (row.line, row.seed) not in seeds:
        raise ValueError(f"{where}: there is no run of its line and seed before it; {ADVICE}")
    return seeds[row.line, row.seed]
