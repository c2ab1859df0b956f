"""The page of `seqloom study width`, OUT/width.html: drawn from the rows in OUT/results.jsonl, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import Axis, Chart, Choice, Spec, Table
from seqloom.report.charts.style import styles
from seqloom.report.results import StudyRow, read


@final
class Width(StudyRow):
    """The columns that the page needs; a row without them is an error in one line."""

    mixer: str
    width: int
    loss: float


@final
@dataclass(frozen=True)
class WidthReport:
    """The content of the page."""

    charts: list[Chart]
    rows: Sequence[Width]


def read_rows(out: Path) -> list[Width]:
    """The rows of the study in `out`."""
    return read(out, "width", Width)


def text(rows: Sequence[Width]) -> str:
    """The table as it is printed."""
    return layout.table(["mixer", "width", "held-out loss"], [[row.mixer, row.width, row.loss] for row in rows])


def chart(rows: Sequence[Width]) -> Chart:
    """The loss over the width, a line per mixer."""
    table = Table(["mixer", "width", "loss"], [[row.mixer, row.width, row.loss] for row in rows])
    heading = "Loss by width"

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        width = Axis("width", "channels", marked=sorted(set(table.numbers("width"))))
        loss = Axis("loss", "held-out loss, nats per token")
        return curves(table, width, loss, styles(list(dict.fromkeys(row.mixer for row in rows))), marks=True)

    return Chart("width", heading, "Held-out loss by the width.", {"rows": table}, [Choice(heading, draw)])


def write(out: Path) -> Path:
    """Writes the page and returns its path; `seqloom report OUT` calls it too."""
    rows = read_rows(out)
    report = WidthReport([chart(rows)], rows)
    path = out / "width.html"
    path.write_text(html.render(Path(__file__).with_name("page.jinja"), report, report.charts), encoding="utf-8")
    return path
