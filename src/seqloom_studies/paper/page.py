"""The page of a study, OUT/NAME.html: one self-contained file, which loads nothing from the network."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from seqloom.core.statistics import p_text
from seqloom.report import html
from seqloom.report.charts.chart import Chart
from seqloom.report.charts.style import LineStyle
from seqloom.runs.durable import replace_text
from seqloom_studies.paper.charts import charts, styles_of
from seqloom_studies.paper.claims import Claim, conclusions, decide_claims
from seqloom_studies.paper.compared import Compared, Loss
from seqloom_studies.paper.page_rows import Line, Study, read
from seqloom_studies.paper.page_table import Column, Value, columns, table_rows
from seqloom_studies.paper.verdicts import Verdict


@final
@dataclass(frozen=True)
class StudyReport:
    """The content of the page, computed from the rows of a study."""

    study: Study
    conclusion: list[str]
    caption: list[str]
    claims: dict[Claim, dict[Loss, Verdict]]
    charts: list[Chart]
    columns: list[Column]
    table: list[tuple[Line, list[tuple[str, str]]]]
    """(line, cells): the text of a cell, and the number that it is sorted by"""
    smallest_difference: str
    styles: dict[str, LineStyle]
    csv: str

    @classmethod
    def from_rows(cls, study: Study) -> Self:
        """The report of these rows."""
        shown_columns = columns(study)
        return cls(
            study=study,
            conclusion=conclusion(study),
            caption=caption(study),
            claims=decide_claims(study),
            charts=charts(study),
            columns=shown_columns,
            table=[
                (
                    line,
                    [(_text(column, cell), _sort_value(cell)) for column, cell in zip(shown_columns, row, strict=True)],
                )
                for line, row in table_rows(study)
            ],
            smallest_difference=Compared(study, "held_out").smallest_difference,
            styles=styles_of(study),
            csv=_csv(study),
        )


def render(report: StudyReport) -> str:
    """The page as HTML."""
    return html.render(Path(__file__).with_name("page.jinja"), report, report.charts)


def write(rows: Path) -> Path:
    """Writes the page of a file of rows next to it; returns its path. Errors as `read` has them."""
    path = rows.with_suffix(".html")
    replace_text(path, render(StudyReport.from_rows(read(rows))))
    return path


def conclusion(study: Study) -> list[str]:
    """What follows from the rows: for the models, and for the paper's claims about them."""
    return [*filter(None, [Compared(study, "held_out").conclusion]), *conclusions(study)]


def caption(study: Study) -> list[str]:
    """Sentences on the size, the text and the cells that are not done yet."""
    figure = study.figure
    cells = [seed for line in study.lines for seed in line.seeds]
    done = sum(seed.row.finished for seed in cells)
    sentences = [
        f"Reduced: {figure.differs}." if figure.differs else "At the paper's own settings.",
        f"Text: {figure.text}.",
        f"{figure.seeds} seed." if figure.seeds == 1 else f"{figure.seeds} seeds.",
    ]
    if figure.floor is not None:
        sentences.append(f"No model can have less than {figure.floor:.3f} nats per token on this text.")
    if figure.unigram is not None:
        sentences.append(f"Frequencies of single tokens alone have a loss of {figure.unigram:.3f}.")
    if done < len(cells):
        sentences.append(f"Unfinished: {done:,} of {len(cells):,} cells are done.")
    return sentences


def _text(column: Column, value: Value) -> str:
    """A cell as text: three decimals for losses, more for small numbers such as a p or a learning rate."""
    if value is None:
        return "–"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else value
    if column.name == "adjusted p":
        return p_text(value)
    if not column.better and "±" not in column.name and abs(value) < 0.1:  # a learning rate
        return f"{value:.4g}"
    return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"


def _sort_value(value: Value) -> str:
    return "" if value is None or isinstance(value, str) else str(value)


def _csv(study: Study) -> str:
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["model", *(column.name for column in columns(study))])
    lines.writerows([line.series, *row] for line, row in table_rows(study))
    return out.getvalue()
