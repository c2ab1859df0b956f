"""The page of a study, OUT/NAME.html: one self-contained file, which loads nothing from the network."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from seqloom.report import html
from seqloom.report.charts.chart import Chart
from seqloom.report.charts.style import Look
from seqloom.report.study.charts import charts, looks_of
from seqloom.report.study.compared import Compared
from seqloom.report.study.rows import Line, Study, read
from seqloom.report.study.table import Column, Value, columns, table_rows


@final
@dataclass(frozen=True)
class StudyReport:
    """The content of the page, computed from the rows of a study."""

    study: Study
    caption: list[str]
    charts: list[Chart]
    columns: list[Column]
    table: list[tuple[Line, list[tuple[str, str]]]]
    """(line, cells): the text of a cell, and the number that it is sorted by"""
    smallest_difference: str
    looks: dict[str, Look]
    csv: str

    @classmethod
    def from_rows(cls, study: Study) -> Self:
        """The report of these rows."""
        return cls(
            study=study,
            caption=caption(study),
            charts=charts(study),
            columns=columns(study),
            table=[(line, [(_text(cell), _sorted(cell)) for cell in row]) for line, row in table_rows(study)],
            smallest_difference=Compared(study, "held_out").beneath,
            looks=looks_of(study),
            csv=_csv(study),
        )


def render(report: StudyReport) -> str:
    """The page as HTML."""
    return html.render("study.html.jinja", report, report.charts)


def write(rows: Path) -> Path:
    """Writes the page of a file of rows next to it; returns its path. Errors as `read` has them."""
    path = rows.with_suffix(".html")
    path.write_text(render(StudyReport.from_rows(read(rows))), encoding="utf-8")
    return path


def caption(study: Study) -> list[str]:
    """Sentences on the size, the text and the cells that are not done yet."""
    figure = study.figure
    cells = [seed for line in study.lines for seed in line.seeds]
    done = sum(seed.row["finished"] for seed in cells)
    sentences = [
        f"Reduced: {figure['differs']}." if figure["differs"] else "At the paper's own settings.",
        f"Text: {figure['text']}.",
        f"{figure['seeds']} seed." if figure["seeds"] == 1 else f"{figure['seeds']} seeds.",
    ]
    if figure["floor"] is not None:
        sentences.append(f"The floor of this text is {figure['floor']:.3f} nats per token.")
    sentences.append(f"Frequencies of single tokens alone have a loss of {figure['unigram']:.3f}.")
    if done < len(cells):
        sentences.append(f"Unfinished: {done:,} of {len(cells):,} cells are done.")
    return sentences


def _text(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        if abs(value) < 0.1:  # a learning rate
            return f"{value:.4g}"
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value


def _sorted(value: Value) -> str:
    return "" if value is None or isinstance(value, str) else str(value)


def _csv(study: Study) -> str:
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["model", *(column.name for column in columns(study))])
    lines.writerows([line.series, *row] for line, row in table_rows(study))
    return out.getvalue()
