"""The comparison in the docs: a section with the decisions and the table, and the charts.

They are made from the newest protocol that has all six models of README (protocols.py), else from the oldest, and from
recall_trained.jsonl, if these files exist. `python -m docs.making.images` draws the charts; docs/results.md includes
the section.
"""

from functools import cache
from pathlib import Path

from seqloom.report.charts.chart import Chart
from seqloom.report.stored import render_markdown
from seqloom.training.settings import resolve
from seqloom_studies.board import table
from seqloom_studies.board.charts import APART, charts
from seqloom_studies.board.lineup import RECIPE
from seqloom_studies.board.page_rows import read_recalled, read_times
from seqloom_studies.board.protocols import PROTOCOLS, newest
from seqloom_studies.board.standing import Board

RECALLED = "recall_trained.jsonl"


@cache
def rows(results: Path) -> tuple[Board, table.Times, str] | None:
    """The board, its times and the name of its file; None without a finished run."""
    oldest = PROTOCOLS[-1]
    protocol, board = newest(results) or (oldest, oldest.board(results, "books"))
    if board is None or not board.standings:
        return None
    return board, table.Times(read_times(results / protocol.times)), protocol.rows


def section(results: Path) -> str | None:
    """Markdown of the decisions with their evidence, the table and its notes; None without a finished run."""
    stored = rows(results)
    if stored is None:
        return None
    board, times, file = stored
    model = resolve(RECIPE, []).layered_model
    text = render_markdown(
        Path(__file__).with_name("section.md.jinja"),
        answers=lines(results),
        pictures=pictures(results),
        apart=[standing.title for name, standing in board.standings.items() if name in APART],
        file=file,
        dim=model.dim,
        depth=model.depth,
        context=model.context,
        head=table.head(times),
        lines=table.lines(board, times),
        notes=table.notes(board, times),
    )
    return text.rstrip()


def result(name: str, results: Path) -> str | None:
    """The result of one row in a sentence: its bits per byte, and the difference to attention; None without a run."""
    stored = rows(results)
    if stored is None:
        return None
    board, *_ = stored
    standing = board.standings.get(name)
    if standing is None:
        return None
    loss, to_host = standing.estimate, board.to_host(name)
    bits = f"{loss} bits per byte on the test books, {loss.seeds} seed{'s' * (loss.seeds > 1)}"
    return bits if to_host is None else f"{bits}; to {board.lineup.titles[board.lineup.host]} {to_host.signed_text}"


def lines(results: Path) -> list[str]:
    """Each question with its answer; [] without a finished run."""
    stored = rows(results)
    if stored is None:
        return []
    board, *_ = stored
    return [f"{answer.question.text} {answer.sentence(board.lineup.titles)}" for answer in board.answers]


def pictures(results: Path) -> dict[str, Chart]:
    """The charts by the names of their files; {} without a finished run."""
    stored = rows(results)
    if stored is None:
        return {}
    board, times, _ = stored
    recalled = read_recalled(results / RECALLED)
    return {f"{chart.name}.svg": chart for chart in charts(board, times, recalled)}
