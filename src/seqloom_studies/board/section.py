"""The board in the docs: a section with the five decisions and the table, and the charts.

They are made from board.jsonl, board_times.jsonl and recall_trained.jsonl in a folder of results, if these exist.
`python -m docs.making.images` draws the charts. docs/results.md includes the section.
"""

from functools import cache
from pathlib import Path

from seqloom.report.charts.chart import Chart
from seqloom.report.stored import render_markdown
from seqloom_studies.board import table
from seqloom_studies.board.charts import APART, charts
from seqloom_studies.board.page_rows import Result, read_recalled, read_times
from seqloom_studies.board.rows import stored_lines
from seqloom_studies.board.standing import Board, Lineup, Question

FILES = ("board.jsonl", "board_times.jsonl", "recall_trained.jsonl")
TITLES = {
    "attention": "llama attention",
    "he": "HE",
    "gated_delta": "gated_delta",
    "he-3-1": "HE 3 : attention 1",
    "gated_delta-3-1": "gated_delta 3 : attention 1",
    "attention-convolution": "llama attention, convolution of 4 on q, k, v",
    "attention-window": "llama attention, window 64",
    **{name: name for name in ("gla", "mamba2", "rwkv7", "mlstm", "gru", "identity")},
    "we": "WE",
    "me": "ME",
    "she": "SHE (own size)",
}
"""the models of these rows, whose protocol had no folds"""
QUESTIONS = (
    Question("HE or llama attention at equal parameters?", "he", "attention"),
    Question("gated_delta or llama attention at equal parameters?", "gated_delta", "attention"),
    Question("HE in three of four layers, or attention in all?", "he-3-1", "attention"),
    Question("gated_delta in three of four layers, or attention in all?", "gated_delta-3-1", "attention"),
    Question("HE or gated_delta at equal parameters?", "he", "gated_delta"),
)
"""fixed before these rows were made"""
LINEUP = Lineup(TITLES, "attention", ("she",), QUESTIONS)


@cache
def rows(results: Path) -> tuple[Board, table.Times] | None:
    """The board and its times; None without a finished run."""
    lines = [Result.model_validate(line) for line in stored_lines(results / FILES[0]).values() if not line.get("lost")]
    board = Board.of(lines, LINEUP) if lines else None
    if board is None or not board.standings:
        return None
    return board, table.Times(read_times(results / FILES[1]))


def section(results: Path) -> str | None:
    """Markdown of the decisions with their evidence, the table and its notes; None without a finished run."""
    board_and_times = rows(results)
    if board_and_times is None:
        return None
    board, times = board_and_times
    text = render_markdown(
        Path(__file__).with_name("section.md.jinja"),
        answers=lines(results),
        pictures=pictures(results),
        apart=[standing.title for name, standing in board.standings.items() if name in APART],
        head=table.head(times),
        lines=table.lines(board, times),
        notes=table.notes(board, times),
    )
    return text.rstrip()


def result(name: str, results: Path) -> str | None:
    """The result of one row in a sentence: its bits per byte, and the difference to attention; None without a run."""
    board_and_times = rows(results)
    if board_and_times is None:
        return None
    board, _ = board_and_times
    standing = board.standings.get(name)
    if standing is None:
        return None
    loss, to_host = standing.estimate, board.to_host(name)
    bits = f"{loss} bits per byte on the test books, {loss.seeds} seed{'s' * (loss.seeds > 1)}"
    return bits if to_host is None else f"{bits}; to llama attention {to_host.signed_text}"


def lines(results: Path) -> list[str]:
    """Each question with its answer; [] without a finished run."""
    board_and_times = rows(results)
    if board_and_times is None:
        return []
    board, _ = board_and_times
    return [f"{answer.question.text} {answer.sentence(board.lineup.titles)}" for answer in board.answers]


def pictures(results: Path) -> dict[str, Chart]:
    """The charts by the names of their files; {} without a finished run."""
    board_and_times = rows(results)
    if board_and_times is None:
        return {}
    board, times = board_and_times
    recalled = read_recalled(results / FILES[2])
    return {f"{chart.name}.svg": chart for chart in charts(board, times, recalled)}
