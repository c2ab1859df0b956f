"""The report of a comparison, OUT/report.html: one self-contained file, which loads nothing from the network."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from seqloom.report import answer, html, inside, losses, needs, origin, samples, table, tradeoffs
from seqloom.report.charts.chart import Chart
from seqloom.report.comparison import Comparison
from seqloom.report.measured import list_measured
from seqloom.report.read import read
from seqloom.runs.durable import replace_text

MEMORY = "price of state bytes"
"""the beginning of the names of the charts of memory"""


@final
@dataclass(frozen=True)
class Section:
    """A part of the page: its charts under a heading, in one column or in two."""

    name: str
    heading: str
    charts: list[Chart]
    description: str = ""
    columns: int = 1


@final
@dataclass(frozen=True)
class Report:
    """The content of the page, computed from the rows of a comparison."""

    rows: Comparison
    front: Chart | None
    """the chart next to the answer: held-out loss against memory, where that is known"""
    answer: list[str]
    """sentences; the first is the conclusion"""
    table: list[table.Row]
    csv: str
    smallest_difference: str
    needs: list[needs.Need]
    """what each contender is best at; [] for one alone"""
    sections: list[Section]
    prompted: list[samples.Prompted]
    lags: list[Chart]
    layers: list[inside.Layer]
    facts: list[tuple[str, str]]
    methods: list[str]

    @classmethod
    def from_rows(cls, rows: Comparison) -> Self:
        """The report of these rows."""
        front = (
            "Held-out loss against what it takes; lower and further left is better. The line joins the Pareto front: "
            "the models that no other one beats in both. Bars go from the lowest to the highest seed."
        )
        prices = tradeoffs.tradeoffs(rows)
        first = next((chart for chart in prices if chart.name.startswith(MEMORY)), prices[0] if prices else None)
        sections = [
            Section("training", "Training", [*losses.training(rows), *losses.held_out(rows)]),
            Section("position", "Position in the window", losses.by_position(rows)),
            Section("price", "What it costs", [price for price in prices if price is not first], front, columns=2),
        ]
        return cls(
            rows=rows,
            front=first,
            answer=answer.sentences(rows),
            table=table.rows(rows),
            csv=table.as_csv(rows),
            smallest_difference=answer.smallest_difference(rows),
            needs=needs.needs(list_measured(rows)) if len(rows.contenders) > 1 else [],
            sections=[section for section in sections if section.charts],
            prompted=samples.samples_by_prompt(rows),
            lags=inside.looks_back(rows),
            layers=inside.layers(rows),
            facts=origin.facts(rows),
            methods=origin.methods(rows),
        )

    @property
    def charts(self) -> list[Chart]:
        """All charts of the page."""
        section_charts = [chart for section in self.sections for chart in section.charts]
        layer_charts = [chart for layer in self.layers for chart in layer.charts]
        return [*([self.front] if self.front else []), *section_charts, *self.lags, *layer_charts]

    @property
    def maps(self) -> list[inside.Map]:
        """All maps of the page."""
        return [drawing for layer in self.layers for drawing in layer.maps]


def render(report: Report) -> str:
    """The page as HTML."""
    return html.render("report.html.jinja", report, report.charts, report.maps)


def write(out: Path) -> Path:
    """Writes the report of the comparison in `out` next to it; returns the path of report.html.

    Damaged and missing rows are named on the page and on standard error. FileNotFoundError and ValueError as `read` has
    them.
    """
    rows = read(out)
    for line in rows.damage:
        print(line, file=sys.stderr)
    path = out / "report.html"
    replace_text(path, render(Report.from_rows(rows)))
    return path
