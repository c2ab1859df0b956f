"""The board in the docs: a section with the five decisions and the table, and the charts.

They are made from results/board.jsonl, results/board_times.jsonl and results/recall_trained.jsonl, if these
exist. `python -m docs.making.images` draws the charts. docs/choose.md includes the section, which lists the rows that
are not finished.
"""

from pathlib import Path

from docs.making.results import RESULTS
from seqloom.cli.board import lineup
from seqloom.core.table import markdown
from seqloom.experiments.board.rows import read_times, stored
from seqloom.report.board import table
from seqloom.report.board.charts import charts
from seqloom.report.board.standing import Board
from seqloom.report.charts.chart import Chart

FILES = ("board.jsonl", "board_times.jsonl", "recall_trained.jsonl")


def rows(results: Path = RESULTS) -> tuple[Board, table.Times] | None:
    """The board and its times; None without a finished run."""
    lines = list(stored(results / FILES[0]).values())
    board = Board.of(lines, lineup()) if lines else None
    if board is None or not board.standings:
        return None
    return board, table.Times([*read_times(results / FILES[1])])


def section(results: Path = RESULTS) -> str | None:
    """Markdown of the decisions with their evidence, the table and its notes; None without a finished run."""
    board_and_times = rows(results)
    if board_and_times is None:
        return None
    board, times = board_and_times
    parts = [
        "## Five decisions",
        "Fixed before the runs, at equal parameters, each row at its best learning rate, on books of authors "
        f"that were not trained on ([rows](../results/{FILES[0]})).",
        "\n".join(f"{number}. {answer}" for number, answer in enumerate(lines(results), 1)),
        *(f"![{chart.heading}](images/{name})" for name, chart in pictures(results).items()),
        "## The board",
        markdown(tuple(table.head(times)), [tuple(line) for line in table.lines(board, times)]),
        "\n".join(f"- {note}" for note in table.notes(board)),
    ]
    return "\n\n".join(parts)


def result(name: str, results: Path = RESULTS) -> str | None:
    """The result of one row in a sentence: its bits per byte, and the difference to attention; None without a run."""
    board_and_times = rows(results)
    found = board_and_times and board_and_times[0].standings.get(name)
    if not board_and_times or not found:
        return None
    loss, against = found.estimate, board_and_times[0].to_host(name)
    bits = f"{loss} bits per byte on the test books, {loss.seeds} seed{'s' * (loss.seeds > 1)}"
    return bits if against is None else f"{bits}; to llama attention {against.signed}"


def lines(results: Path = RESULTS) -> list[str]:
    """Each question with its answer; [] without a finished run."""
    stored_board = rows(results)
    if stored_board is None:
        return []
    board, _ = stored_board
    return [f"{answer.question.text} {answer.sentence(board.lineup.titles)}" for answer in board.answers]


def pictures(results: Path = RESULTS) -> dict[str, Chart]:
    """The charts by the names of their files; {} without a finished run."""
    stored_board = rows(results)
    if stored_board is None:
        return {}
    made = charts(*stored_board, recalled=read_times(results / FILES[2]))
    return {f"{chart.name}.svg": chart for chart in made}
