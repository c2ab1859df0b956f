"""The page of `seqloom study figures`, OUT/figures.html: a chart for each figure.

Drawn from the rows in OUT/results.jsonl alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self, final

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Spec, Table, round_number
from seqloom.report.charts.style import styles
from seqloom.report.columns import Number
from seqloom.report.results import StudyRow, read
from seqloom.runs.durable import replace_text

STUDY = "figures"


class Words(NamedTuple):
    """The heading of a figure, what it shows, and its axes."""

    heading: str
    words: str
    x: str
    y: str


FIGURES = {
    "gradients": Words(
        "Gradients by distance",
        "How much the last output of a mixer with its initial weights depends on each token before it.",
        "tokens back",
        "norm of the slope",
    ),
    "features": Words(
        "Errors of random features",
        "Mean squared relative error of e^(q·k) by the number of directions, for queries and keys of N(0, 1/√K), K 16.",
        "directions",
        "error",
    ),
    "times": Words(
        "Times by length",
        "A forward and backward pass of a mixer over one row in float32, the median of a race at each length.",
        "tokens",
        "ms",
    ),
}


@final
class Point(StudyRow):
    """One point of one line of a figure."""

    figure: Literal["gradients", "features", "times"]
    line: str
    x: Number
    y: Number


Rows = Sequence[Point]


@final
@dataclass(frozen=True)
class FiguresReport:
    """The content of the page."""

    answer: list[str]
    charts: list[Chart]
    head: ClassVar = ("figure", "x", "y")
    table: list[tuple[str, list[Cell]]]
    """the line of each point, and its cells"""
    title: ClassVar = "Figures of the source texts"
    about: ClassVar = "Measured with the mixers of this library, without training."
    origin: Point

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        table: list[tuple[str, list[Cell]]] = [
            (row.line, [row.figure, round_number(row.x), round_number(row.y)]) for row in rows
        ]
        return cls([], charts(rows), table, rows[-1])


def charts(rows: Rows) -> list[Chart]:
    """A chart for each figure that has points."""
    return [_chart(name, of_figure) for name in FIGURES if (of_figure := [row for row in rows if row.figure == name])]


def _chart(name: str, rows: Rows) -> Chart:
    words = FIGURES[name]
    positive = [row for row in rows if row.y > 0]  # a logarithm has no place for what is not
    cells: list[list[Cell]] = [[row.line, round_number(row.x), round_number(row.y)] for row in positive]
    table = Table(["model", words.x, words.y], cells)
    lines = list(dict.fromkeys(row.line for row in rows))

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        x = Axis(words.x, words.x, log=name != "gradients")
        return curves(table, x, Axis(words.y, words.y, log=True), styles(lines), marks=name != "gradients")

    return Chart(name, words.heading, words.words, {"rows": table}, [Choice(words.heading, draw)])


def text(rows: Rows) -> str:
    """The ends of each line, as they are printed."""
    ends: dict[tuple[str, str], list[Point]] = {}
    for row in rows:
        ends.setdefault((row.figure, row.line), []).append(row)
    lines = [
        (figure, line, points[0].x, points[0].y, points[-1].x, points[-1].y) for (figure, line), points in ends.items()
    ]
    return layout.table(("figure", "line", "from", "value", "to", "value there"), lines)


def read_rows(out: Path) -> list[Point]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Point)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = FiguresReport.from_rows(read_rows(out))
    path = out / "figures.html"
    replace_text(path, html.render("rows.html.jinja", report, report.charts))
    return path
