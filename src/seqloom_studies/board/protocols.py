"""The protocols of the comparison, the newest first: their files of rows, and what each fixed before its runs.

Every page takes the rows of one protocol: the newest that has a result of all six models of README on the books.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom_studies.board import lineup
from seqloom_studies.board.actions import lineup as fixed_lineup
from seqloom_studies.board.page_rows import Result
from seqloom_studies.board.rows import stored_lines
from seqloom_studies.board.standing import Board, Lineup, Question

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
"""the models of the protocol without folds"""
QUESTIONS = (
    Question("HE or llama attention at equal parameters?", "he", "attention"),
    Question("gated_delta or llama attention at equal parameters?", "gated_delta", "attention"),
    Question("HE in three of four layers, or attention in all?", "he-3-1", "attention"),
    Question("gated_delta in three of four layers, or attention in all?", "gated_delta-3-1", "attention"),
    Question("HE or gated_delta at equal parameters?", "he", "gated_delta"),
)
"""its questions, fixed before its rows were made"""


@final
@dataclass(frozen=True)
class Protocol:
    """The files of a protocol, what it fixed, and its names of README's six models: attention comes first."""

    rows: str
    times: str
    lineup: Lineup
    models: tuple[str, ...]

    def board(self, results: Path, text: str) -> Board | None:
        """The board of a text; None without a row of it."""
        lines = [line for line in stored_lines(results / self.rows).values() if not line.get("lost")]
        rows = [row for row in map(Result.model_validate, lines) if row.text == text]
        return Board.of(rows, self.lineup) if rows else None

    def whole_board(self, results: Path, text: str) -> Board | None:
        """The board of a text; None unless all six models have a result on it."""
        board = self.board(results, text)
        return board if board is not None and set(self.models) <= board.standings.keys() else None


PROTOCOLS = (
    Protocol(
        "comparison.jsonl",
        "comparison_times.jsonl",
        fixed_lineup(),
        (lineup.PLAIN, lineup.WINDOW, "gated_delta", "rwkv7", "he", "gated_delta-3-1"),
    ),
    Protocol(
        "board.jsonl",
        "board_times.jsonl",
        Lineup(TITLES, "attention", ("she",), QUESTIONS),
        ("attention", "attention-window", "gated_delta", "rwkv7", "he", "gated_delta-3-1"),
    ),
)


def newest(results: Path) -> tuple[Protocol, Board] | None:
    """The newest protocol with a result of all six models on the books, and its board; None where there is none."""
    for protocol in PROTOCOLS:
        board = protocol.whole_board(results, "books")
        if board is not None:
            return protocol, board
    return None
