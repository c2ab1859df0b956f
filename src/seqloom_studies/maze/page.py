"""The page of `seqloom study maze`, OUT/maze.html: right turns by the length of the T-maze, and how soon they come.

Drawn from the rows in OUT/results.jsonl alone. A point is the mean over seeds; a band goes from the lowest seed to the
highest one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import ClassVar, Self, final

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import SEEDS, Axis, Cell, Chart, Choice, Spec, Table, filename, round_number
from seqloom.report.charts.style import styles
from seqloom.report.columns import AtLeastOne, Count, Number, Share
from seqloom.report.results import StudyRow, read
from seqloom.report.seeds import describe_seeds
from seqloom.runs.durable import replace_text

STUDY = "maze"
KINDS = {"gtrxl": "attention", "xl": "transformer_xl"}
"""the mixer whose color an agent has, where the agent is not named after its mixer"""
BY_LENGTH = "Right turns by the length of the T-maze"
SOLVED = 0.95
"""the mean return from which a maze counts as learned"""
CHANCE = ("without memory", 0.5)


@final
class Turn(StudyRow):
    """The score of an agent after some batches."""

    agent: str
    length: AtLeastOne
    """steps from the cue to the turn"""
    seed: Count
    batches: Count
    """batches that it has learned from"""
    reached: Share
    """mean return: the share of right turns"""
    steps: Number
    parameters: Count


Rows = Sequence[Turn]


@final
@dataclass(frozen=True)
class MazeReport:
    """The content of the page."""

    answer: list[str]
    charts: list[Chart]
    head: ClassVar = ("length", "seed", "batches", "return", "steps", "parameters")
    table: list[tuple[str, list[Cell]]]
    """the agent of each row, and its cells"""
    title: ClassVar = "T-mazes by length"
    about: ClassVar = "Agents that learn by playing, and must keep a cue from the first step to the last."
    origin: Turn

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        table: list[tuple[str, list[Cell]]] = [
            (
                row.agent,
                [row.length, row.seed, row.batches, round_number(row.reached), round_number(row.steps), row.parameters],
            )
            for row in rows
        ]
        return cls(answer(rows), charts(rows), table, rows[-1])


def answer(rows: Rows) -> list[str]:
    """Two sentences: how often each agent turns right in the longest maze at the end, and by how many seeds."""
    length = max(row.length for row in rows)
    batches = max(row.batches for row in rows if row.length == length)  # others may have trained for longer
    reached: dict[str, list[float]] = {}
    for row in rows:
        if (row.length, row.batches) == (length, batches):
            reached.setdefault(row.agent, []).append(row.reached)
    ranked = sorted(reached, key=lambda agent: -fmean(reached[agent]))
    shares = ", ".join(f"{agent} {fmean(reached[agent]):.0%}" for agent in ranked)
    seeds = max(len(returns) for returns in reached.values())
    evidence = describe_seeds(1) if seeds == 1 else f"Means of up to {seeds} seeds."
    return [f"Right turns {length:,} steps after the cue: {shares}; {CHANCE[0]} {CHANCE[1]:.0%}.", evidence]


def charts(rows: Rows) -> list[Chart]:
    """The return at the end by length, and for each length the return by batches."""
    batches = max(row.batches for row in rows)
    words = f"Mean return of 100 episodes after {batches:,} batches: the share of right turns."
    final_rows = [row for row in rows if row.batches == batches]
    by_length = Axis("length", "steps from the cue to the turn")
    charts = [_chart(final_rows, BY_LENGTH, words, by_length, lambda row: row.length)]
    for length in sorted({row.length for row in rows}):
        rows_of_length = [row for row in rows if row.length == length]
        heading = f"While it learns: T-maze of {length} steps"
        words = "Mean return of 100 episodes."
        charts.append(_chart(rows_of_length, heading, words, Axis("batches", "batches"), lambda row: row.batches))
    return charts


def _chart(rows: Rows, heading: str, words: str, x: Axis, x_of: Callable[[Turn], int]) -> Chart:
    groups: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        groups.setdefault((row.agent, x_of(row)), []).append(row.reached)
    cells: list[list[Cell]] = [
        [name, x_value, round_number(fmean(returns)), round_number(min(returns)), round_number(max(returns))]
        for (name, x_value), returns in sorted(groups.items())
    ]
    table = Table(["model", x.column, "return", *SEEDS], cells)
    names = list(dict.fromkeys(row.agent for row in rows))
    marked = Axis(x.column, x.label, marked=sorted(set(table.numbers(x.column))))

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        styles_by_name = styles(names, {name: KINDS[name] for name in names if name in KINDS})
        return curves(table, marked, Axis("return", "right turns"), styles_by_name, marks=True, levels=[CHANCE])

    return Chart(filename("maze", heading), heading, words, {"rows": table}, [Choice(heading, draw)])


def text(rows: Rows) -> str:
    """The return of each agent after its last batch, and when it first reached `SOLVED`, as they are printed."""
    runs: dict[tuple[int, str, int], list[Turn]] = {}
    for row in rows:
        runs.setdefault((row.length, row.agent, row.seed), []).append(row)
    lines = []
    for (length, name, seed), scores in runs.items():
        first_solved = next((row.batches for row in scores if row.reached >= SOLVED), None)
        lines.append((length, name, seed, scores[-1].reached, scores[-1].steps, first_solved, scores[-1].batches))
    head = ("length", "agent", "seed", "right turns", "steps", f"batches to {SOLVED:.0%}", "batches")
    return layout.table(head, lines)


def read_rows(out: Path) -> list[Turn]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Turn)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = MazeReport.from_rows(read_rows(out))
    path = out / "maze.html"
    replace_text(path, html.render("rows.html.jinja", report, report.charts))
    return path
