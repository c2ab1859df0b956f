"""The page of `seqloom study markov-gap`, OUT/markov_gap.html: the distance to the true chain against its order.

Drawn from the rows in OUT/results.jsonl alone. The models' context is marked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Self, final

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Spec, Table, round_number
from seqloom.report.charts.style import LineStyle, styles
from seqloom.report.columns import AtLeastOne, Count, Number
from seqloom.report.results import StudyRow, read
from seqloom.runs.durable import replace_text

STUDY = "markov-gap"


@final
class Gap(StudyRow):
    """One model on one chain, with its loss above that of the true chain in nats per token."""

    model: str
    source: str
    order: Count | None
    """order of the chain; None for the hidden one"""
    context: AtLeastOne
    truth: Number
    """the loss of the true chain on the same held-out text, in nats per token"""
    rate: Number | None
    """the entropy rate of the chain in nats per letter; None for the hidden one"""
    gap: Number


Rows = Sequence[Gap]


@final
@dataclass(frozen=True)
class MarkovGapReport:
    """The content of the page."""

    charts: list[Chart]
    sources: list[str]
    table: list[tuple[str, list[str]]]
    """the gap of each model on each chain"""
    styles: dict[str, LineStyle]
    origin: Gap

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        lines = [(model, ["–" if gap is None else f"{gap:.4f}" for gap in gaps]) for model, gaps in table(rows)]
        return cls(charts(rows), sources_of(rows), lines, styles_of(rows), rows[-1])


def sources_of(rows: Rows) -> list[str]:
    """The chains, in the order of the rows."""
    return list(dict.fromkeys(row.source for row in rows))


def table(rows: Rows) -> list[tuple[str, list[float | None]]]:
    """A line per model with its gap on each chain, the mean over the seeds; None for a model that was not trained."""
    sources = sources_of(rows)
    models = dict.fromkeys(row.model for row in rows)
    return [(model, [_mean(rows, model, source) for source in sources]) for model in models]


def text(rows: Rows) -> str:
    """The table as it is printed; beneath the models the loss of the true chains."""
    sources = sources_of(rows)
    truths = {row.source: row.truth for row in rows}
    rates = {row.source: row.rate for row in rows}
    cells: list[list[object]] = [[model, *gaps] for model, gaps in table(rows)]
    cells.append(["the true chain's loss", *(truths[source] for source in sources)])
    cells.append(["the entropy rate, per letter", *(rates[source] for source in sources)])
    contexts = ", ".join(map(str, sorted({row.context for row in rows})))
    title = f"nats per token above the true chain; every model reads {contexts} letters"
    return "\n".join([title, "", layout.table(["model", *sources], cells)])


def charts(rows: Rows) -> list[Chart]:
    """The gap against the order of the chain, of chains that are not hidden; [] where all are."""
    visible = [row for row in rows if row.order is not None]
    if not visible:
        return []
    orders = {row.source: row.order for row in visible if row.order is not None}
    models = dict.fromkeys(row.model for row in visible)
    cells: list[list[Cell]] = [
        [model, order, round_number(gap)]
        for model in models
        for source, order in sorted(orders.items(), key=itemgetter(1))
        if (gap := _mean(visible, model, source)) is not None
    ]
    table = Table(["model", "order", "gap"], cells)
    contexts = sorted({row.context for row in visible})
    borders = [(f"context: {context}", float(context)) for context in contexts]

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        order = Axis("order", "order of the chain", marked=sorted(set(table.numbers("order"))))
        gap = Axis("gap", "nats per token above the true chain")
        return curves(table, order, gap, styles_of(rows), marks=True, borders=borders)

    heading = "Distance to the true chain"
    words = (
        "Held-out loss less that of the true chain, by the chain's order. The models read as many letters as marked."
    )
    return [Chart("markov-gap", heading, words, {"rows": table}, [Choice(heading, draw)])]


def styles_of(rows: Rows) -> dict[str, LineStyle]:
    """How each model is drawn."""
    return styles(list(dict.fromkeys(row.model for row in rows)))


def read_rows(out: Path) -> list[Gap]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Gap)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = MarkovGapReport.from_rows(read_rows(out))
    path = out / "markov_gap.html"
    replace_text(path, html.render(Path(__file__).with_name("page.jinja"), report, report.charts))
    return path


def _mean(rows: Rows, model: str, source: str) -> float | None:
    gaps = [row.gap for row in rows if (row.model, row.source) == (model, source)]
    return fmean(gaps) if gaps else None
