"""The page of `seqloom study question`, OUT/question.html: right answers by distance, for both orders.

Drawn from the rows in OUT/results.jsonl alone, of each mixer and order at its best rate. A point is the mean over
seeds; a band goes from the lowest seed to the highest one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import ClassVar, Literal, Self, final

from pydantic import BaseModel, ConfigDict

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import SEEDS, Axis, Cell, Chart, Choice, Spec, Table, filename, round_number
from seqloom.report.charts.style import styles
from seqloom.report.columns import AtLeastOne, Count, Number, Share
from seqloom.report.results import StudyRow, read
from seqloom.report.seeds import describe_seeds
from seqloom.runs.durable import replace_text

STUDY = "question"
ORDERS = {1: "question before the list", 0: "question after the list"}


@final
class Settings(BaseModel):
    """The settings of the probe."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
    pairs: AtLeastOne
    before: Literal[0, 1]


@final
class Answered(StudyRow):
    """The share of right answers of one model, at a range of distances."""

    mixer: str
    settings: Settings
    lr: Number
    seed: Count
    distance: list[AtLeastOne] | None
    """tokens from the answer back to the value; None for all questions"""
    accuracy: Share
    chance: Share
    batches: Count
    parameters: Count
    state_bytes: Count | None


Rows = Sequence[Answered]


@final
@dataclass(frozen=True)
class QuestionReport:
    """The content of the page."""

    answer: list[str]
    charts: list[Chart]
    head: ClassVar = ("order", "seed", "learning rate", "distance", "right", "batches", "parameters", "state bytes")
    table: list[tuple[str, list[Cell]]]
    """the mixer of each row, and its cells"""
    title: ClassVar = "The question before or after the text"
    about: ClassVar = "Small models that look up one key in a list of pairs, each trained on one order."
    origin: Answered

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        best = choose_rates(rows)
        return cls(answer(best), [chart(best)], [(row.mixer, _cells(row)) for row in best], rows[-1])


def choose_rates(rows: Rows) -> list[Answered]:
    """The rows of each mixer, number of pairs and order at the rate of the most right answers, the mean over seeds."""
    chosen: list[Answered] = []
    for _, of_model in groupby(sorted(rows, key=_model_of), _model_of):
        by_rate: dict[float, list[Answered]] = {}
        for row in of_model:
            by_rate.setdefault(row.lr, []).append(row)
        best = max(by_rate, key=lambda rate: _share_right(by_rate[rate]))
        chosen += by_rate[best]
    return chosen


def answer(rows: Rows) -> list[str]:
    """Two sentences: the right answers of each mixer before and after, and by how many seeds."""
    pairs = max(row.settings.pairs for row in rows)
    lines = [f"{name} {before} and {after}" for name, before, after in compare_orders(rows, pairs)]
    chance = max(row.chance for row in rows)
    return [
        f"Right answers from {pairs} pairs, asked before and after: {'; '.join(lines)}; chance {chance:.1%}.",
        describe_seeds(len({row.seed for row in rows})),
    ]


def compare_orders(rows: Rows, pairs: int) -> Iterator[tuple[str, str, str]]:
    """The mixer, its right answers with the question before the list, and after it; the largest gain first."""
    shares: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.distance is None and row.settings.pairs == pairs:
            same = [other for other in rows if other.distance is None and _model_of(other) == _model_of(row)]
            shares.setdefault(row.mixer, {})[row.settings.before] = _share_right(same)
    both = {name: orders for name, orders in shares.items() if orders.keys() == ORDERS.keys()}
    for name, orders in sorted(both.items(), key=lambda item: item[1][0] - item[1][1]):
        yield name, f"{orders[1]:.0%}", f"{orders[0]:.0%}"


def chart(rows: Rows) -> Chart:
    """Right answers by distance; a choice for each order and number of pairs."""
    names = list(dict.fromkeys(row.mixer for row in rows))
    cells: list[list[Cell]] = []
    pairs = sorted({row.settings.pairs for row in rows})
    views = [(count, before) for count in pairs for before in ORDERS]
    for view, (count, before) in enumerate(views):
        drawn = [row for row in rows if (row.settings.pairs, row.settings.before) == (count, before)]
        cells += [[*line, view] for line in _points(drawn)]
    table = Table(["model", "distance", "right", *SEEDS, "view"], cells)
    chance = ("chance", max(row.chance for row in rows))

    def draw(view: int) -> Spec:
        from seqloom.report.charts.curves import curves

        part = Table(table.head, [row for row in table.rows if row[-1] == view])
        distance = Axis(
            "distance", "tokens from the answer back to the value", marked=sorted(set(part.numbers("distance")))
        )
        return curves(
            part,
            distance,
            Axis("right", "right answers"),
            styles(names),
            marks=True,
            levels=[chance],
            only=("view", view),
        )

    heading = "Right answers by distance"
    words = "Of held-out rows. The distance is that to the value, wherever the question stands."
    choices = [
        Choice(f"{ORDERS[before]}, {count} pairs", partial(draw, view)) for view, (count, before) in enumerate(views)
    ]
    return Chart(filename("question", heading), heading, words, {"rows": table}, choices, "question")


def text(rows: Rows) -> str:
    """Right answers of each mixer in both orders, as they are printed."""
    best = choose_rates(rows)
    pairs = max(row.settings.pairs for row in best)
    lines: list[list[object]] = [list(line) for line in compare_orders(best, pairs)]
    return layout.table(("mixer", *ORDERS.values()), lines)


def read_rows(out: Path) -> list[Answered]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Answered)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = QuestionReport.from_rows(read_rows(out))
    path = out / "question.html"
    replace_text(path, html.render("rows.html.jinja", report, report.charts))
    return path


def _model_of(row: Answered) -> tuple[str, int, int]:
    return row.mixer, row.settings.pairs, row.settings.before


def _share_right(rows: Rows) -> float:
    return fmean(row.accuracy for row in rows if row.distance is None)


def _points(rows: Rows) -> Iterator[list[Cell]]:
    """The mixer, the largest distance of a range, and the mean, lowest and highest share of right answers there."""
    groups: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if row.distance is not None:
            groups.setdefault((row.mixer, row.distance[1]), []).append(row.accuracy)
    for (name, distance), shares in sorted(groups.items()):
        yield [name, distance, *map(round_number, (fmean(shares), min(shares), max(shares)))]


def _cells(row: Answered) -> list[Cell]:
    distance = "all" if row.distance is None else "-".join(map(str, row.distance))
    order = ORDERS[row.settings.before]
    right = round_number(row.accuracy)
    return [order, row.seed, row.lr, distance, right, row.batches, row.parameters, row.state_bytes]
