"""The page of `seqloom study numbers`, OUT/numbers.html: errors of the models, and their forecasts.

Drawn from the rows in OUT/results.jsonl alone, of each mixer and series at its best rate. A forecast is the median of
the paths that the model of seed 0 drew; the band goes from the quantile of 5% to that of 95%.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Annotated, ClassVar, Self, final

from pydantic import Field

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import SEEDS, Axis, Cell, Chart, Choice, Spec, Table, filename, round_number
from seqloom.report.charts.style import styles
from seqloom.report.columns import AtLeastOne, Count, Number
from seqloom.report.results import read
from seqloom.report.seeds import SeedRow, describe_seeds
from seqloom.runs.durable import replace_text

STUDY = "numbers"
OBSERVED = "observed"
"""the name of the line of what was to be forecast"""


@final
class Predicted(SeedRow):
    """The error of one model on one series."""

    lr: Number
    context: AtLeastOne
    parameters: Count
    held_out: Number
    error: Number
    best: Number | None
    forecast: list[Annotated[list[Number], Field(min_length=4, max_length=4)]] | None
    """at each time: what was observed, and the quantiles of 5%, 50% and 95%"""
    history: list[Number] | None


Rows = Sequence[Predicted]


@final
@dataclass(frozen=True)
class NumbersReport:
    """The content of the page."""

    answer: list[str]
    charts: list[Chart]
    head: ClassVar = ("series", "seed", "learning rate", "error", "error of the best", "loss", "parameters")
    table: list[tuple[str, list[Cell]]]
    """the mixer of each row, and its cells"""
    title: ClassVar = "Numbers from numbers"
    about: ClassVar = (
        "Models of equal parameters that predict series of numbers. An error is the root of the mean squared one, "
        "divided by the deviation of what is predicted."
    )
    origin: Predicted

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        best = choose_rates(rows)
        return cls(answer(best), charts(best), [(row.mixer, _cells(row)) for row in best], rows[-1])


def choose_rates(rows: Rows) -> list[Predicted]:
    """The rows of each series and mixer at its best rate, by the mean error over seeds; the best mixer first."""
    groups: list[list[Predicted]] = []
    for _, of_model in groupby(sorted(rows, key=_model_of), _model_of):
        by_rate: dict[float, list[Predicted]] = {}
        for row in of_model:
            by_rate.setdefault(row.lr, []).append(row)
        best = min(by_rate, key=lambda rate: _mean_error(by_rate[rate]))
        groups.append(by_rate[best])
    ranked = sorted(groups, key=lambda group: (group[0].source, _mean_error(group)))
    return [row for group in ranked for row in group]


def answer(rows: Rows) -> list[str]:
    """A sentence for each series, and by how many seeds."""
    sentences = []
    for source, of_source in groupby(rows, lambda row: row.source):
        errors = {name: _mean_error(list(group)) for name, group in groupby(of_source, lambda row: row.mixer)}
        best = next((row.best for row in rows if row.source == source and row.best is not None), None)
        known = "" if best is None else f"; the best prediction {best:.4g}"
        sentences.append(f"{source}: " + ", ".join(f"{name} {error:.4g}" for name, error in errors.items()) + known)
    return ["; ".join(sentences) + ".", describe_seeds(len({row.seed for row in rows}))]


def charts(rows: Rows) -> list[Chart]:
    """The forecasts of each series that has some."""
    sources = dict.fromkeys(row.source for row in rows if row.forecast)
    return [chart for source in sources if (chart := _forecasts([row for row in rows if row.source == source]))]


def _forecasts(rows: Rows) -> Chart | None:
    drawn = {row.mixer: row for row in rows if row.seed == 0 and row.forecast and row.history}
    if not drawn:
        return None
    first = next(iter(drawn.values()))
    history, lines = first.history or [], first.forecast or []
    cells: list[list[Cell]] = [
        [OBSERVED, time, round_number(value), None, None]
        for time, value in enumerate([*history, *(line[0] for line in lines)], 1 - len(history))
    ]
    for name, row in drawn.items():
        for time, (_, low, middle, high) in enumerate(row.forecast or [], 1):
            cells.append([name, time, *map(round_number, (middle, low, high))])
    table = Table(["model", "time", "value", *SEEDS], cells)
    names = [OBSERVED, *drawn]

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        time = Axis("time", "times after the history")
        return curves(table, time, Axis("value", "value"), styles(names), borders=[("forecast begins", 0.5)])

    heading = f"Forecasts of {first.source}"
    words = "Medians of the paths that models draw after a held-out history; bands from 5% to 95% of the paths."
    return Chart(filename("forecasts", first.source), heading, words, {"rows": table}, [Choice(heading, draw)])


def text(rows: Rows) -> str:
    """The error of each mixer on each series, as it is printed."""
    lines = []
    for (source, name), group in groupby(choose_rates(rows), lambda row: (row.source, row.mixer)):
        same = list(group)
        lines.append((source, name, _mean_error(same), same[0].best, same[0].lr, len(same), same[0].parameters))
    head = ("series", "mixer", "error", "error of the best", "learning rate", "seeds", "parameters")
    return layout.table(head, lines)


def read_rows(out: Path) -> list[Predicted]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Predicted)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = NumbersReport.from_rows(read_rows(out))
    path = out / "numbers.html"
    replace_text(path, html.render("rows.html.jinja", report, report.charts))
    return path


def _model_of(row: Predicted) -> tuple[str, str]:
    return row.source, row.mixer


def _mean_error(rows: Rows) -> float:
    return fmean(row.error for row in rows)


def _cells(row: Predicted) -> list[Cell]:
    numbers = map(round_number, (row.error, row.best, row.held_out))
    return [row.source, row.seed, row.lr, *numbers, row.parameters]
