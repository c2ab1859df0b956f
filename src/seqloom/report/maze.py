"""The page of `seqloom study maze`, OUT/maze.html: right turns by the length of the T-maze, and how soon they come.

Drawn from the rows in OUT/results.jsonl alone. A point is the mean over seeds; a band goes from the lowest seed to the
highest one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Self, final

from seqloom.report import html
from seqloom.report.agents import SEEDS
from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Spec, Table, filename, rounded
from seqloom.report.charts.style import styles
from seqloom.report.results import read
from seqloom.runs.durable import replace_text

Rows = Sequence[Mapping[str, Any]]
KINDS = {"gtrxl": "attention", "xl": "transformer_xl"}
"""the mixer whose color an agent has, where the agent is not named after its mixer"""
BY_LENGTH = "Right turns by the length of the T-maze"
CHANCE = ("without memory", 0.5)


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
    origin: Mapping[str, Any]

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        columns = ("length", "seed", "batches", "reached", "steps", "parameters")
        table: list[tuple[str, list[Cell]]] = [
            (str(row["agent"]), [rounded(row[column]) for column in columns]) for row in rows
        ]
        return cls(answer(rows), charts(rows), table, rows[-1])


def answer(rows: Rows) -> list[str]:
    """Two sentences: how often each agent turns right in the longest maze at the end, and by how many seeds."""
    length, batches = (max(int(row[column]) for row in rows) for column in ("length", "batches"))
    reached: dict[str, list[float]] = {}
    for row in rows:
        if (int(row["length"]), int(row["batches"])) == (length, batches):
            reached.setdefault(str(row["agent"]), []).append(float(row["reached"]))
    ranked = sorted(reached, key=lambda agent: -fmean(reached[agent]))
    shares = ", ".join(f"{agent} {fmean(reached[agent]):.0%}" for agent in ranked)
    seeds = max(len(returns) for returns in reached.values())
    evidence = "Each was observed once, which decides nothing." if seeds == 1 else f"Means of up to {seeds} seeds."
    return [f"Right turns {length:,} steps after the cue: {shares}; {CHANCE[0]} {CHANCE[1]:.0%}.", evidence]


def charts(rows: Rows) -> list[Chart]:
    """The return at the end by length, and for each length the return by batches."""
    batches = max(int(row["batches"]) for row in rows)
    words = f"Mean return of 100 episodes after {batches:,} batches: the share of right turns."
    final_rows = [row for row in rows if row["batches"] == batches]
    charts = [_chart(final_rows, BY_LENGTH, words, Axis("length", "steps from the cue to the turn"))]
    for length in sorted({int(row["length"]) for row in rows}):
        rows_of_length = [row for row in rows if row["length"] == length]
        heading = f"While it learns: T-maze of {length} steps"
        charts.append(_chart(rows_of_length, heading, "Mean return of 100 episodes.", Axis("batches", "batches")))
    return charts


def _chart(rows: Rows, heading: str, words: str, x: Axis) -> Chart:
    groups: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        groups.setdefault((str(row["agent"]), int(row[x.column])), []).append(float(row["reached"]))
    cells: list[list[Cell]] = [
        [name, x_value, rounded(fmean(returns)), rounded(min(returns)), rounded(max(returns))]
        for (name, x_value), returns in sorted(groups.items())
    ]
    table = Table(["model", x.column, "return", *SEEDS], cells)
    names = list(dict.fromkeys(str(row["agent"]) for row in rows))
    marked = Axis(x.column, x.label, marked=sorted(set(table.numbers(x.column))))

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        styles_by_name = styles(names, {name: KINDS[name] for name in names if name in KINDS})
        return curves(table, marked, Axis("return", "right turns"), styles_by_name, marks=True, levels=[CHANCE])

    return Chart(filename("maze", heading), heading, words, {"rows": table}, [Choice(heading, draw)])


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = MazeReport.from_rows(read(out, "maze", ("agent", "reached")))
    path = out / "maze.html"
    replace_text(path, html.render("agents.html.jinja", report, report.charts))
    return path
