"""The page of `seqloom study conversions`, OUT/conversions.html: what is lost by the layers that keep attention.

Drawn from the rows in OUT/results.jsonl alone. A point is the mean over seeds; a band goes from the lowest seed to the
highest one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import ClassVar, Self, final

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import Cell, Chart, round_number
from seqloom.report.columns import Count, Number
from seqloom.report.results import StudyRow, read
from seqloom.runs.durable import replace_text

STUDY = "conversions"
NEEDED = 0.05
"""nats a token that the window must cost for the other rows to show anything"""
DISTILLED = "distilled"
"""the end of a student's name"""


@final
class Model(StudyRow):
    """A model of a distillation."""

    to: str
    keep: str
    layers: str
    tokens: Count
    seed: Count
    model: str
    loss: Number
    recovered: Number | None
    state: Count
    state_before: Count


Rows = Sequence[Model]


@final
@dataclass(frozen=True)
class ConversionReport:
    """The content of the page."""

    answer: list[str]
    charts: list[Chart]
    head: ClassVar = (
        "keeps attention",
        "layers replaced",
        "tokens",
        "seed",
        "loss",
        "recovered",
        "state, bytes",
        "before",
    )
    table: list[tuple[str, list[Cell]]]
    """the mixer and model of each row, and its cells"""
    title: ClassVar = "Attention distilled into other mixers"
    about: ClassVar = "Losses in nats a token; recovered: the share of what removing the layers costs that is not lost."
    origin: Model

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        table: list[tuple[str, list[Cell]]] = [
            (
                f"{row.to}: {row.model}",
                [
                    *(row.keep, row.layers, row.tokens, row.seed, round_number(row.loss)),
                    None if row.recovered is None else round_number(row.recovered),
                    *(row.state, row.state_before),
                ],
            )
            for row in rows
        ]
        return cls(answer(rows), [], table, rows[-1])


def answer(rows: Rows) -> list[str]:
    """What the window costs, and so whether the teacher needs its context; then what each student recovers."""
    costs = [window.loss - _teacher(rows, window).loss for window in rows if window.model.startswith("a window")]
    sentences = []
    if costs:
        lowest = min(costs)
        judged = "the text needs what attention remembers" if lowest >= NEEDED else "the other rows show little"
        sentences.append(f"The window costs at least {lowest:.3f} nats a token: {judged} (bound {NEEDED}).")
    students: dict[str, list[float]] = {}
    for row in rows:
        if row.model.endswith(DISTILLED) and row.recovered is not None:
            students.setdefault(f"{row.to} with attention in {row.keep} of the layers", []).append(row.recovered)
    sentences += [f"Recovered by {name}: {fmean(shares):.0%}." for name, shares in students.items()]
    return sentences or ["Removing the layers costs nothing."]


def _teacher(rows: Rows, other: Model) -> Model:
    """The teacher in the cell of another row."""
    return next(row for row in rows if row.cell == other.cell and row.model == "the teacher")


def text(rows: Rows) -> str:
    """Each model, as it is printed."""
    lines = [
        (
            *(row.to, row.keep, row.tokens, row.seed, row.model, row.loss),
            "-" if row.recovered is None else f"{row.recovered:.0%}",
        )
        for row in rows
    ]
    head = ("mixer", "keeps", "tokens", "seed", "model", "loss, nats a token", "recovered")
    return f"{layout.table(head, lines)}\n\n{' '.join(answer(rows))}"


def read_rows(out: Path) -> list[Model]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Model)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = ConversionReport.from_rows(read_rows(out))
    path = out / "conversions.html"
    replace_text(path, html.render("rows.html.jinja", report, report.charts))
    return path
