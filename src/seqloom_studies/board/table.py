"""The board's table: a line per contender, the lowest bits per byte first, and the notes below it."""

from collections.abc import Sequence
from typing import final

from seqloom.core.table import format_size, table
from seqloom_studies.board.page_rows import Result, Timed
from seqloom_studies.board.standing import Board, Standing

SHORT, LONG = "1-64", "1025-2048"
"""the first positions, and positions beyond the context that was trained"""
STATE = "2048"
"""tokens after which the charts show the state's size"""
CONTEXT = 512
"""tokens of the context in training, after which the table shows the state's size and the time of a token"""


@final
class Times:
    """Raced times: milliseconds of a training step with quartiles, and of a token after so many others."""

    def __init__(self, rows: Sequence[Timed]) -> None:
        self.step: dict[str, float] = {}
        self.step_quartiles: dict[str, tuple[float, float]] = {}
        self.token: dict[tuple[str, int], float] = {}
        self.machine = next((row.machine for row in rows if row.machine), "")
        for row in rows:
            if row.step is not None:
                self.step[row.contender] = 1e3 * row.step
                low, high = row.step_quartiles or (row.step, row.step)
                self.step_quartiles[row.contender] = (1e3 * low, 1e3 * high)
            if row.ms_per_token is not None and row.tokens is not None:
                self.token[row.contender, row.tokens] = row.ms_per_token


def head(times: Times) -> list[str]:
    """The names of the columns."""
    fixed = [
        "model",
        "bits per byte ± (runs)",
        "to the Llama block ±",
        f"at tokens {SHORT}",
        f"at tokens {LONG}",
        f"memory, context {CONTEXT}",
    ]
    timed = ["training step (quartiles)"] if times.step else []
    token = [f"token after {CONTEXT}"] if times.token else []
    return [*fixed, *timed, *token, "rate"]


def cells(board: Board, standing: Standing, times: Times) -> list[str]:
    """A line of the table."""
    to_host = board.to_host(standing.name)
    timed = [_step(times, standing.name)] if times.step else []
    token = [_milliseconds(times.token.get((standing.name, CONTEXT)))] if times.token else []
    rate = f"{standing.rate:g}" + ("" if standing.chosen or standing.name in board.lineup.below else "?")
    return [
        standing.title,
        f"{standing.estimate} ({standing.estimate.seeds})",
        "" if to_host is None else to_host.signed_text,
        _bits(standing.mean(lambda row: row.by_position, SHORT)),
        _bits(standing.mean(lambda row: row.by_position_long, LONG)),
        format_size(standing.first.state_bytes.get(str(CONTEXT))),
        *timed,
        *token,
        rate,
    ]


def lines(board: Board, times: Times) -> list[list[str]]:
    """All lines."""
    return [cells(board, standing, times) for standing in board.standings.values()]


def smallest(board: Board) -> str:
    """A sentence: the smallest difference that would have been significant, as a range over the decisions."""
    differences = [answer.verdict.difference for answer in board.answers if answer.verdict is not None]
    sizes = [difference.smallest for difference in differences if difference.smallest is not None]
    if not sizes:
        return "No decision is possible yet: that takes at least three runs of both models."
    span = f"{min(sizes):.4f}" if len(sizes) == 1 else f"{min(sizes):.4f} to {max(sizes):.4f}"
    return f"The smallest difference that would have been significant: {span} bits per byte, after Holm's correction."


def notes(board: Board, times: Times) -> list[str]:
    """The notes below the table."""
    row = next(iter(board.standings.values())).first
    tokens = ", ".join(f"{count:,} of {name}" for name, count in row.tokens.items())
    runs = "folds of authors" if board.lineup.share else "seeds"
    lines = [
        smallest(board),
        f"±: Student's 95% interval over {runs}; differences to attention in the Llama block are paired by run, each "
        "with an interval of its own, and exploratory. Significant: p after Holm's correction below 0.05; fragile: not "
        "so without some one run; equal within a margin: both one-sided tests reject more.",
        f"At tokens {SHORT}: bits per byte of the tokens that stand there in a window. At tokens {LONG} the window is "
        f"longer than those of training. Memory: the state of one text in float32, after {CONTEXT} tokens.",
        f"Tokens{' of the first fold' if board.lineup.share else ''}: {tokens}. {_authors(row)}",
        f"{_parameters(board)} {row.batches:,} batches. Each learning rate is the best of seed 0 on the validation "
        "texts; ? has a neighbor that was not tried yet.",
    ]
    if times.step or times.token:
        where = f" on {times.machine}" if times.machine else ""
        lines.append(
            f"Times: one race in float32{where}. A step has the batch size of the trainings; the token after {CONTEXT} "
            "is of one text and random weights."
        )
    if board.unfinished_contenders:
        lines.append(f"Not finished: {', '.join(board.unfinished_contenders)}.")
    return lines


def text(board: Board, times: Times) -> str:
    """The table, the decisions and the notes, for a terminal."""
    titles = board.lineup.titles
    decisions = [
        f"  {number}. {answer.question.text} {answer.sentence(titles).replace('**', '')}"
        for number, answer in enumerate(board.answers, 1)
    ]
    return "\n".join([table(head(times), lines(board, times)), "", *notes(board, times), "Decisions:", *decisions])


def _parameters(board: Board) -> str:
    """How many parameters the models have, without the embedding; those at their own size are named."""
    counts = {standing.title: standing.first.parameters for standing in board.standings.values()}
    own = {board.lineup.titles[name] for name in board.lineup.below}
    shared = [count for title, count in counts.items() if title not in own]
    sizes = sorted({f"{count / 1e6:.2f}" for count in shared})
    more = [f"{title} has {counts[title] / 1e6:.1f}" for title in own if title in counts]
    return f"Parameters without the embedding: {' to '.join(sizes)} million{''.join(f'; {text}' for text in more)}."


def _authors(row: Result) -> str:
    """Who validates and who is tested."""
    if row.fold is not None:
        return f"Validation: {'; '.join(row.authors.get('validation', []))}. All other authors are dealt into folds."
    parts = " ".join(f"{name}: {'; '.join(people)}." for name, people in row.authors.items())
    return (
        f"{parts} All other authors are trained on. Fairy tales that several authors retell are in more than one part."
    )


def _step(times: Times, name: str) -> str:
    """The time of a training step, such as `812 ms (800, 830)`; empty where it was not raced."""
    if name not in times.step:
        return ""
    low, high = times.step_quartiles[name]
    return f"{times.step[name]:,.0f} ms ({low:,.0f}, {high:,.0f})"


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} ms"


def _bits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
