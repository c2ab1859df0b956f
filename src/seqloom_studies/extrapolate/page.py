"""The page of `seqloom study extrapolate`, OUT/extrapolate.html: loss against the length of the text, a line per run.

Drawn from the rows in OUT/results.jsonl alone. The length that a run was trained on is marked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import Axis, Chart, Choice, Spec, Table, round_number
from seqloom.report.charts.style import LineStyle, styles
from seqloom.report.columns import AtLeastOne, Count, Number
from seqloom.report.results import StudyRow, read
from seqloom.runs.durable import replace_text

STUDY = "extrapolate"
STEADY = 0.01
"""nats per token that a loss may rise and still count as no worse"""


@final
class Longer(StudyRow):
    """How well a run predicts a text in windows of one length, in nats per token."""

    run: str
    mixer: str
    position: str
    context: AtLeastOne
    """tokens of a window in training"""
    seed: Count | None
    text: str
    length: AtLeastOne
    """tokens of a window here"""
    loss: Number | None
    beyond: Number | None
    """of the tokens whose position in the window is beyond the trained context"""
    refused: str | None
    """the reason where there is no loss"""


Rows = Sequence[Longer]


@final
@dataclass(frozen=True)
class Loss:
    """One of the two losses, which has a chart of its own."""

    name: str
    heading: str
    words: str
    of: Callable[[Longer], float | None]


LOSSES = (
    Loss("loss", "Loss by length", "Mean loss of all tokens, in windows of each length side by side.",
         lambda row: row.loss),
    Loss("beyond", "Loss beyond the trained length",
         "Mean loss of the tokens that follow more tokens than training had.", lambda row: row.beyond),
)  # fmt: skip


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
    origin: Longer
    text: str
    seeds: str

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        lengths = sorted({row.length for row in rows})
        seeds = {row.seed for row in rows}
        return cls(
            conclusion=conclusion(rows),
            charts=charts(rows),
            lengths=lengths,
            table=[_line(first, losses) for first, losses in table(rows, LOSSES[0].of)],
            styles=styles_of(rows),
            refused=refused_lines(rows),
            origin=rows[-1],
            text=", ".join(dict.fromkeys(row.text for row in rows)),
            seeds="One run each." if len(seeds) == 1 else "",
        )


def conclusion(rows: Rows) -> list[tuple[str, str]]:
    """The runs that are no worse at the longest length than at the trained one, then the others; the best first."""
    changes = []
    for run, rows_of_run in _by_run(rows).items():
        losses = {row.length: row.loss for row in rows_of_run if row.loss is not None}
        context = rows_of_run[0].context
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
    for loss in LOSSES:
        cells = [[row.run, row.length, round_number(loss.of(row))] for row in rows if loss.of(row) is not None]
        if cells:
            charts.append(_chart(rows, loss, Table(["model", "length", "loss"], cells)))
    return charts


def table(rows: Rows, loss_of: Callable[[Longer], float | None]) -> list[tuple[Longer, list[float | None]]]:
    """A line per run: its first row, and its losses by length; None where a length could not be read."""
    lengths = sorted({row.length for row in rows})
    lines = []
    for rows_of_run in _by_run(rows).values():
        by_length = {row.length: loss_of(row) for row in rows_of_run}
        lines.append((rows_of_run[0], [by_length.get(length) for length in lengths]))
    return lines


def text(rows: Rows) -> str:
    """Losses by length, of all tokens and of those beyond the trained length, and what could not be read."""
    lengths = sorted({row.length for row in rows})
    head = ["run", "mixer", "position", "trained on", *map(str, lengths)]

    def losses(loss_of: Callable[[Longer], float | None]) -> str:
        lines = [[*_settings(first), *values] for first, values in table(rows, loss_of)]
        return layout.table(head, lines)

    reasons = {f"{row.run}: {row.refused}": None for row in rows if row.refused is not None}
    parts = ["nats per token, by the tokens of a window", "", losses(LOSSES[0].of)]
    if any(row.beyond is not None for row in rows):
        beyond = losses(LOSSES[1].of)
        parts += ["", "the same, of the tokens that follow more tokens than training had", "", beyond]
    return "\n".join([*parts, *(["", "not read:", *reasons] if reasons else [])])


def refused_lines(rows: Rows) -> list[str]:
    """A line for each run and reason, with its lengths."""
    runs: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.refused is not None:
            runs.setdefault((row.run, row.refused), []).append(f"{row.length:,}")
    return [f"{run} at {', '.join(lengths)}: {why}" for (run, why), lengths in runs.items()]


def styles_of(rows: Rows) -> dict[str, LineStyle]:
    """The color and stroke of each run, by its positional encoding, or by its mixer where it has none."""
    kinds = {row.run: row.mixer if row.position == "none" else row.position for row in rows}
    return styles(list(kinds), kinds)


def trained_lengths(rows: Rows) -> list[tuple[str, float]]:
    """The trained lengths: one for all runs, or each with the names of its runs."""
    runs: dict[int, list[str]] = {}
    for row in rows:
        names = runs.setdefault(row.context, [])
        if row.run not in names:
            names.append(row.run)
    if len(runs) == 1:
        return [(f"trained: {length:,}", float(length)) for length in runs]
    return [(f"trained: {', '.join(names)}", float(length)) for length, names in sorted(runs.items())]


def read_rows(out: Path) -> list[Longer]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Longer)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    rows = read_rows(out)
    report = ExtrapolateReport.from_rows(sorted(rows, key=lambda row: row.length))
    path = out / "extrapolate.html"
    replace_text(path, html.render(Path(__file__).with_name("page.jinja"), report, report.charts))
    return path


def _settings(row: Longer) -> list[object]:
    return [row.run, row.mixer, row.position, row.context]


def _line(first: Longer, losses: Sequence[float | None]) -> tuple[str, list[str]]:
    """A line of the page's table; – where a length could not be read."""
    settings = [first.mixer, first.position, f"{first.context:,}"]
    return first.run, settings + ["–" if loss is None else f"{loss:.3f}" for loss in losses]


def _by_run(rows: Rows) -> dict[str, list[Longer]]:
    """The rows of each run, at least one."""
    runs: dict[str, list[Longer]] = {}
    for row in rows:
        runs.setdefault(row.run, []).append(row)
    return runs


def _chart(rows: Rows, loss: Loss, cells: Table) -> Chart:
    low, high = min(cells.numbers("length")), max(cells.numbers("length"))
    borders = [(label, length) for label, length in trained_lengths(rows) if low <= length <= high]

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        lengths = Axis("length", "tokens of a window", log=True, marked=sorted(set(cells.numbers("length"))))
        nats = Axis("loss", "loss (nats per token)")
        return curves(cells, lengths, nats, styles_of(rows), marks=True, borders=borders)

    return Chart(f"extrapolate-{loss.name}", loss.heading, loss.words, {"rows": cells}, [Choice(loss.heading, draw)])
