"""The page of `seqloom study agents`, OUT/agents.html: four charts for each source of episodes, and all rows.

Drawn from the rows in OUT/results.jsonl alone. A point is the mean over seeds; a band goes from the lowest seed to the
highest one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import ClassVar, Self, final

from seqloom.core import table as layout
from seqloom.core.statistics import differences
from seqloom.report import html
from seqloom.report.charts.chart import SEEDS, Axis, Cell, Chart, Choice, Spec, Table, filename, round_number
from seqloom.report.charts.style import LineStyle, styles
from seqloom.report.columns import AtLeastOne, Count, Number
from seqloom.report.results import StudyRow, read
from seqloom.runs.durable import replace_text

STUDY = "agents"
AS_ASKED = "reached = asked"
"""the name of the line on which the return reached equals the return asked"""
SHORT = {"return asked, rewards at the end": "late rewards", "return asked": "asked", "cloning, best": "cloning"}
"""the names of learners next to their lines, where there is little room"""
NEUTRAL = LineStyle(11, (2, 3), "cross")
"""the style of the line `AS_ASKED`"""


@final
class Played(StudyRow):
    """The returns that a trained model reached in the episodes that it played."""

    environment: str
    policy: str
    learner: str
    mixer: str
    episodes: AtLeastOne
    """recorded episodes"""
    context: AtLeastOne
    """steps of a window"""
    seed: Count
    asked: Number | None
    """the return that was asked for; None for cloning"""
    mean: Number
    error: Number
    lowest: Number
    highest: Number
    findings: list[str]
    """the names of the findings that the row belongs to"""

    @property
    def source(self) -> str:
        """Where its episodes are from."""
        return f"{self.environment}:{self.policy}"


Rows = Sequence[Played]


@final
@dataclass(frozen=True)
class Finding:
    """One of the four figures: its rows are those that name it."""

    name: str
    heading: str
    words: str
    x: Axis
    x_of: Callable[[Played], float | None]
    """the x of a row"""
    label: Callable[[Played], str]
    """the name of a row's line"""


def _by_mixer(row: Played) -> str:
    return row.mixer


def _by_learner(row: Played) -> str:
    learner = row.learner
    for long, short in SHORT.items():
        learner = learner.replace(long, short)
    return f"{row.mixer}, {learner}"


EPISODES = Axis("episodes", "recorded episodes", log=True)
ASKED = Axis("asked", "return asked")
CONTEXT = Axis("context", "steps of a window", log=True)
REACHED = Axis("mean", "return reached")
FINDINGS = (
    Finding("little data", "Little data", "Asked for the best return that was recorded, next to behaviour cloning of "
            "the best episodes, by the number of recorded episodes.", EPISODES, lambda row: row.episodes, _by_learner),
    Finding("asked", "Return reached and return asked", "Mean return of the episodes that were played for each return "
            "that was asked for.", ASKED, lambda row: row.asked, _by_mixer),
    Finding("context", "Context", "Asked for the best return that was recorded, by the steps that a model reads.",
            CONTEXT, lambda row: row.context, _by_mixer),
    Finding("late rewards", "Rewards at the end", "Return reached for each return asked, with rewards as they came and "
            "with all of them moved to the last step of an episode.", ASKED, lambda row: row.asked, _by_learner),
)  # fmt: skip


@final
@dataclass(frozen=True)
class AgentsReport:
    """The content of the page."""

    answer: list[str]
    charts: list[Chart]
    head: ClassVar = ("learner", "mixer", "episodes", "context", "seed", "asked", "mean", "error", "lowest", "highest")
    table: list[tuple[str, list[Cell]]]
    """the source of each row, and its cells"""
    title: ClassVar = "Decision Transformers and behaviour cloning"
    about: ClassVar = "Models that learned from recorded episodes, and the returns that they reach when they play."
    origin: Played

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        return cls(answer(rows), charts(rows), [(row.source, _cells(row)) for row in rows], rows[-1])


def answer(rows: Rows) -> list[str]:
    """For each source a sentence: what the mixers reach when asked for the most, and which differences are significant.

    Differences are paired, since each seed records episodes of its own, and all are one family.
    """
    asked_rows = [(row, row.asked) for row in rows if "asked" in row.findings and row.asked is not None]
    highest: dict[str, float] = {}
    for row, asked in asked_rows:
        highest[row.source] = max(asked, highest.get(row.source, asked))
    returns: dict[tuple[str, str], dict[int, float]] = {}
    for row, asked in asked_rows:
        if asked == highest[row.source]:
            returns.setdefault((row.source, row.mixer), {})[row.seed] = row.mean
    mixers = {name: [mixer for other, mixer in returns if other == name] for name in highest}
    baselines = {
        name: min(names, key=lambda mixer: not mixer.startswith("attention")) for name, names in mixers.items()
    }
    to_baseline = differences(returns, {key: (key[0], baselines[key[0]]) for key in returns}, paired=True)
    sentences = []
    for name, names in mixers.items():
        reached = ", ".join(f"{mixer} {fmean(returns[name, mixer].values()):.4g}" for mixer in names)
        comparisons = []
        for mixer in names:
            if (name, mixer) in to_baseline:
                difference = to_baseline[name, mixer]
                size = f"{difference.estimate.mean:+.4g}"
                comparisons.append(f"{mixer} to {baselines[name]} {size}, {difference.verdict}")
        compared = f" ({'; '.join(comparisons)})" if comparisons else ""
        sentences.append(f"{name}, asked for {highest[name]:g}: {reached}{compared}.")
    return sentences


def charts(rows: Rows) -> list[Chart]:
    """The four charts of each source, without those whose rows so far have one value of x."""
    charts = []
    for name in dict.fromkeys(row.source for row in rows):
        source_rows = [row for row in rows if row.source == name]
        charts += [chart(source_rows, finding) for finding in FINDINGS if len(_x_values(source_rows, finding)) > 1]
    return charts


def _x_values(rows: Rows, finding: Finding) -> set[float]:
    """The values of x that the rows of a finding have."""
    return {x for row in rows if finding.name in row.findings and (x := finding.x_of(row)) is not None}


def chart(rows: Rows, finding: Finding) -> Chart:
    """One of the four charts, of the rows of one source."""
    table = points([row for row in rows if finding.name in row.findings], finding)
    x = Axis(finding.x.column, finding.x.label, finding.x.log, sorted(set(table.numbers(finding.x.column))))
    styles_by_name = styles(list(dict.fromkeys(str(name) for name in table.column("model")))) | {AS_ASKED: NEUTRAL}

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        return curves(table, x, REACHED, styles_by_name, marks=True)

    source_name = rows[0].source
    heading = f"{finding.heading}: {source_name}"
    return Chart(
        filename("agents", finding.name, source_name), heading, finding.words, {"rows": table}, [Choice(heading, draw)]
    )


def points(rows: Rows, finding: Finding) -> Table:
    """A row for each line and x: the mean over the seeds, the lowest and the highest; and the line `AS_ASKED`.

    A row without an x, such as that of cloning over the return asked, counts at every x of the others.
    """
    all_xs = sorted(_x_values(rows, finding))
    groups: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        own_x = finding.x_of(row)
        for x in all_xs if own_x is None else [own_x]:
            groups.setdefault((finding.label(row), x), []).append(row.mean)
    cells: list[list[Cell]] = [
        [name, round_number(x), round_number(fmean(means)), round_number(min(means)), round_number(max(means))]
        for (name, x), means in sorted(groups.items())
    ]
    if finding.x is ASKED:
        xs = sorted({x for _, x in groups})
        cells += [[AS_ASKED, *[round_number(x)] * 4] for x in xs]
    return Table(["model", finding.x.column, REACHED.column, *SEEDS], cells)


def text(rows: Rows) -> str:
    """The return of every row, and the recorded ones, as they are printed."""
    head = ("episodes of", "learner", "mixer", "episodes", "context", "seed", "asked", "reached", "standard error")
    return layout.table(head, [(row.source, *_settings(row), row.asked, row.mean, row.error) for row in rows])


def read_rows(out: Path) -> list[Played]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Played)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = AgentsReport.from_rows(read_rows(out))
    path = out / "agents.html"
    replace_text(path, html.render("rows.html.jinja", report, report.charts))
    return path


def _settings(row: Played) -> list[Cell]:
    return [row.learner, row.mixer, row.episodes, row.context, row.seed]


def _cells(row: Played) -> list[Cell]:
    """The cells of a row below `AgentsReport.head`."""
    asked = "–" if row.asked is None else round_number(row.asked)
    returns = [round_number(value) for value in (row.mean, row.error, row.lowest, row.highest)]
    return [*_settings(row), asked, *returns]
