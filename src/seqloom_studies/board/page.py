"""The page of the board, one self-contained file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.report import html
from seqloom.report.charts.chart import Chart
from seqloom.runs.durable import replace_text
from seqloom_studies.board import table
from seqloom_studies.board.charts import charts
from seqloom_studies.board.page_rows import Recalled
from seqloom_studies.board.standing import Board


@final
@dataclass(frozen=True)
class BoardReport:
    """The content of the page."""

    head: Sequence[str]
    table: Sequence[Sequence[str]]
    decisions: Sequence[tuple[str, str]]
    """(question, answer) pairs"""
    notes: Sequence[str]
    charts: Sequence[Chart]
    origin: Mapping[str, str]


def report(board: Board, times: table.Times, recalled: Sequence[Recalled] = ()) -> BoardReport:
    """The report of these rows."""
    titles = board.lineup.titles
    answers = [(answer.question.text, answer.sentence(titles).replace("**", "")) for answer in board.answers]
    return BoardReport(
        head=table.head(times),
        table=table.lines(board, times),
        decisions=answers,
        notes=table.notes(board, times),
        charts=charts(board, times, recalled),
        origin={
            "date": _join_values(row.date for row in board.rows),
            "commit": _join_values(row.commit for row in board.rows),
            "machine": _join_values(row.machine for row in board.rows),
        },
    )


def write(path: Path, content: BoardReport) -> Path:
    """Writes the page and returns its path."""
    replace_text(path, html.render(Path(__file__).with_name("page.jinja"), content, content.charts))
    return path


def _join_values(values: Iterable[str]) -> str:
    """The values that differ, in order."""
    return ", ".join(sorted(set(values)))
