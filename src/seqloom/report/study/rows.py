"""The rows of a figure as `seqloom study paper` writes them: its lines, and the seeds of each."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, final

FORMAT = 1
LOSS, LOSSES = "loss", "losses"
"""the loss of a row, in nats per token, and those of a row of many batches"""


@final
@dataclass
class Seed:
    """One cell: its row, medians as (first, last, loss), held-out losses as (step, loss).

    `every` has the losses of all batches, in Figure 9 alone.
    """

    row: dict[str, Any]
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
    def finished(self) -> bool:
        """Whether all its cells are done."""
        return all(seed.row["finished"] for seed in self.seeds)

    @property
    def name(self) -> str:
        """The name of its curve: its series, and that it is unfinished where it is."""
        return self.series if self.finished else f"{self.series} (unfinished)"

    def known(self, column: str) -> list[float]:
        """The values of a column, of all seeds that have one."""
        return [float(seed.row[column]) for seed in self.seeds if seed.row.get(column) is not None]

    def mean(self, column: str) -> float | None:
        """The mean of a column over the seeds that have a value."""
        values = self.known(column)
        return fmean(values) if values else None

    def span(self, column: str) -> tuple[float, float] | None:
        """The lowest and the highest seed's value of a column; None where fewer than two have one."""
        values = self.known(column)
        return (min(values), max(values)) if len(values) > 1 else None


@final
@dataclass(frozen=True)
class Study:
    """The rows of a figure: the row of the figure itself, and its lines in order."""

    figure: dict[str, Any]
    lines: list[Line]

    @property
    def floor(self) -> list[tuple[str, float]]:
        """The lower bound of the loss on the text, if known, as a horizontal line of the charts."""
        floor = self.figure["floor"]
        return [] if floor is None else [("floor of the text", float(floor))]

    @property
    def paired(self) -> bool:
        """Whether the seed draws the order of the batches too, so that runs of the same seed are pairs."""
        return bool(self.figure.get("paired", False))

    @property
    def several(self) -> bool:
        """Whether there are seeds to compare."""
        return int(self.figure["seeds"]) > 1


def read(path: Path) -> Study:
    """The study in a file of rows. FileNotFoundError, or ValueError in one line, where it cannot be read."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no rows there; `seqloom study paper {path.stem}` makes them")
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        figure = rows[0]
        if figure["format"] > FORMAT:
            raise ValueError(f"{path}: format {figure['format']} is newer than this seqloom reads; update seqloom")
        return Study(figure, _lines(rows[1:]))
    except (json.JSONDecodeError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{path}: no rows of a figure ({error!r}); make them again") from None


def _lines(rows: list[dict[str, Any]]) -> list[Line]:
    """The lines of a figure with their seeds, from the rows below that of the figure."""
    lines: dict[int, Line] = {}
    seeds: dict[tuple[int, int], Seed] = {}
    for row in rows:
        number, key = row["line"], (row["line"], row["seed"])
        match row["row"]:
            case "cell":
                line = lines.setdefault(number, Line(row["series"], row["of"], row["x"], row["family"]))
                seeds[key] = Seed(row)
                line.seeds.append(seeds[key])
            case "median":
                seeds[key].medians.append((row["first"], row["last"], row[LOSS]))
            case "held-out":
                seeds[key].held_out.append((row["step"], row[LOSS]))
            case "batches":
                seeds[key].every = list(zip(row["steps"], row[LOSSES], strict=True))
    return list(lines.values())
