"""The page of `seqloom study extrapolate`, OUT/extrapolate.html: loss against the length of the text, a line per run.

Drawn from the rows in OUT/results.jsonl alone. The length that a run was trained on is marked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from seqloom.report import html
from seqloom.report.charts.chart import Axis, Chart, Choice, Spec, Table, rounded
from seqloom.report.charts.style import LineStyle, styles
from seqloom.report.results import read
from seqloom.runs.durable import replace_text

LOSSES = (
    ("loss", "Loss by length", "Mean loss of all tokens, in windows of each length side by side."),
    ("beyond", "Loss beyond the trained length", "Mean loss of the tokens that follow more tokens than training had."),
)
STEADY = 0.01
"""nats per token that a loss may rise and still count as no worse"""
Rows = Sequence[Mapping[str, Any]]


@final
@dataclass(frozen=True)
class ExtrapolateReport:
    """The content of the page."""

    conclusion: list[tuple[str, str]]
    """what the runs have in common, and their names with the change of loss"""
    charts: list[Chart]
    lengths: list[int]
    table: list[tuple[str, list[str]]]
    """the cells of each run: mixer, position, context, and the loss at each length"""
    styles: dict[str, LineStyle]
    refused: list[str]
    origin: Mapping[str, Any]
    text: str
    seeds: str

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        lengths = sorted({int(row["length"]) for row in rows})
        seeds = {row["seed"] for row in rows}
        return cls(
            conclusion=conclusion(rows),
            charts=charts(rows),
            lengths=lengths,
            table=table(rows, lengths),
            styles=styles_of(rows),
            refused=refused(rows),
            origin=rows[-1],
            text=", ".join(dict.fromkeys(str(row["text"]) for row in rows)),
            seeds="One seed each: observed once." if len(seeds) == 1 else "",
        )


def conclusion(rows: Rows) -> list[tuple[str, str]]:
    """The runs that are no worse at the longest length than at the trained one, then the others; the best first."""
    changes = []
    for run in dict.fromkeys(str(row["run"]) for row in rows):
        losses = {row["length"]: row["loss"] for row in rows if row["run"] == run and row["loss"] is not None}
        context = next(row["context"] for row in rows if row["run"] == run)
        longest = max(losses, default=0)
        if context in losses and longest > context:
            changes.append((losses[longest] - losses[context], run, context, longest))
    lengths = {change[2:] for change in changes}
    where = ""
    if len(lengths) == 1:
        context, longest = lengths.pop()
        where = f" at {longest:,} tokens than at {context:,}, as trained"
    groups = {
        f"No worse{where}": [change for change in sorted(changes) if change[0] <= STEADY],
        f"Worse{where}": [change for change in sorted(changes) if change[0] > STEADY],
    }
    return [
        (heading, ", ".join(_change_text(*change, brief=bool(where)) for change in group))
        for heading, group in groups.items()
        if group
    ]


def _change_text(loss: float, run: str, context: int, longest: int, *, brief: bool) -> str:
    return f"{run} ({loss:+.3f})" if brief else f"{run} ({loss:+.3f} from {context:,} to {longest:,} tokens)"


def charts(rows: Rows) -> list[Chart]:
    """The two losses against the length; [] where no run could be read."""
    charts = []
    for column, heading, description in LOSSES:
        cells = [[row["run"], row["length"], rounded(row[column])] for row in rows if row[column] is not None]
        if cells:
            charts.append(_chart(rows, column, heading, description, Table(["model", "length", "loss"], cells)))
    return charts


def table(rows: Rows, lengths: Sequence[int]) -> list[tuple[str, list[str]]]:
    """A line per run: mixer, position, context and losses; – where a length could not be read."""
    lines = []
    for run in dict.fromkeys(row["run"] for row in rows):
        by_length = {row["length"]: row for row in rows if row["run"] == run}
        first = next(iter(by_length.values()))
        losses = [by_length[length]["loss"] if length in by_length else None for length in lengths]
        cells = [first["mixer"], first["position"], f"{first['context']:,}"]
        lines.append((str(run), cells + ["–" if loss is None else f"{loss:.3f}" for loss in losses]))
    return lines


def refused(rows: Rows) -> list[str]:
    """A line for each run and reason, with its lengths."""
    runs: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["refused"] is not None:
            runs.setdefault((row["run"], row["refused"]), []).append(f"{row['length']:,}")
    return [f"{run} at {', '.join(lengths)}: {why}" for (run, why), lengths in runs.items()]


def styles_of(rows: Rows) -> dict[str, LineStyle]:
    """The color and stroke of each run, by its positional encoding, or by its mixer where it has none."""
    names = list(dict.fromkeys(str(row["run"]) for row in rows))
    kinds = {
        str(row["run"]): str(row["mixer"] if row["position"] == "none" else row["position"]) for row in rows
    }  # fmt: skip
    return styles(names, kinds)


def trained(rows: Rows) -> list[tuple[str, float]]:
    """The trained lengths: one for all runs, or each with the names of its runs."""
    runs: dict[int, list[str]] = {}
    for row in rows:
        names = runs.setdefault(int(row["context"]), [])
        if row["run"] not in names:
            names.append(str(row["run"]))
    if len(runs) == 1:
        return [(f"trained: {length:,}", float(length)) for length in runs]
    return [(f"trained: {', '.join(names)}", float(length)) for length, names in sorted(runs.items())]


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    rows = read(out, "extrapolate", ("length", "beyond"))
    report = ExtrapolateReport.from_rows(sorted(rows, key=lambda row: int(row["length"])))
    path = out / "extrapolate.html"
    replace_text(path, html.render("extrapolate.html.jinja", report, report.charts))
    return path


def _chart(rows: Rows, name: str, heading: str, description: str, cells: Table) -> Chart:
    low, high = min(cells.numbers("length")), max(cells.numbers("length"))
    borders = [(label, length) for label, length in trained(rows) if low <= length <= high]

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        lengths = Axis("length", "tokens of a window", log=True, marked=sorted(set(cells.numbers("length"))))
        loss = Axis("loss", "loss (nats per token)")
        return curves(cells, lengths, loss, styles_of(rows), marks=True, borders=borders)

    return Chart(f"extrapolate-{name}", heading, description, {"rows": cells}, [Choice(heading, draw)])
