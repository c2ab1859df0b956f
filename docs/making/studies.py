"""A study on the page of the replication: its models with their losses at the end, its pictures, and the command."""

from collections.abc import Sequence
from pathlib import Path

from docs.making.results import table
from docs.making.stored_rows import Studies
from seqloom.core.statistics import Difference, p_text
from seqloom.report.charts.chart import Chart
from seqloom.report.charts.draw import svg
from seqloom.report.study.charts import charts
from seqloom.report.study.compared import Compared, Loss, called
from seqloom.report.study.rows import Line, Study

LOSSES: tuple[Loss, ...] = ("training", "held_out")


def section(file: str, study: Study) -> str:
    """A study: what it is, its models with their losses at the end, and the command."""
    figure = study.figure
    differs = f" With {figure['differs']}." if figure["differs"] else " With the paper's own settings."
    says = f"{figure['says']}{differs} {_seeds(study)}; `{figure['text']}`."
    over = [figure["over"]] if figure["over"] else []
    timed = any(line.known("raced") for line in study.lines)
    clock = ["ms a step, all by turns"] if timed else []
    compared = [Compared(study, loss) for loss in LOSSES]
    to_baseline = [f"to {called(compared[0].baseline)}"] if compared[0].differences else []
    head = [
        "model",
        *over,
        f"training loss, last {figure['stretch']:,}",
        *to_baseline,
        "held-out loss",
        *to_baseline,
        "parameters",
        "operations a token",
        *clock,
        "finished",
    ]
    rows = [_row(line, compared, bool(over), timed) for line in study.lines]
    parts = [f"### {figure['heading']}, {figure['batches']:,} batches", says, table(head, rows)]
    parts += [_beneath(compared)] if to_baseline else []
    parts += ["\n".join(f"- {note}" for note in figure["notes"])] if figure["notes"] else []
    thinned = "of all batches, each n-th is kept; " if figure["kind"] == "batches" else ""
    parts += links(file, study)
    parts.append(f"[The rows](../results/paper/{file}); {thinned}{origin(figure['origin'])}:")
    return "\n\n".join([*parts, f"```sh\n{figure['origin']['command']}\n```"])


def origin(source: dict[str, str]) -> str:
    """Machine, commit and day of rows."""
    return f"{source['machine']}, commit {source['commit']}, {source['date']}"


def _seeds(study: Study) -> str:
    count = study.figure["seeds"]
    return "One seed" if count == 1 else f"{count} seeds; ± is half of a 95% interval"


def _beneath(compared: Sequence[Compared]) -> str:
    """The smallest differences that the table could have settled."""
    training, held_out = (called(comparison.beneath) for comparison in compared)
    return held_out if training == held_out else f"Training: {training} Held out: {held_out}"


def _row(line: Line, compared: Sequence[Compared], swept: bool, timed: bool) -> Sequence[object]:
    cells = [cell for comparison in compared for cell in _loss(line, comparison)]
    sizes = [f"{line.seeds[0].row[column]:,}" for column in ("parameters", "operations")]
    done = sum(seed.row["finished"] for seed in line.seeds)
    x = [f"{line.x:g}"] if swept and line.x is not None else []
    seconds = line.mean("raced")
    clock = [] if not timed else ["-" if seconds is None else f"{1000 * seconds:.1f}"]
    return [called(line.series), *x, *cells, *sizes, *clock, f"{done} of {len(line.seeds)}"]


def _loss(line: Line, compared: Compared) -> list[str]:
    """A model's loss, and, where the table has differences, that to the baseline."""
    mean = [str(compared.mean(line) or "-")]
    return [*mean, _to_baseline(compared.difference(line))] if compared.differences else mean


def _to_baseline(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    p = "" if difference.adjusted is None else f" (p {p_text(difference.adjusted)})"
    return difference.estimate.signed + p


FOLDER = Path(__file__).parents[1] / "images/paper"
SHOWN = ("second half", "parameters", "ms per")
"""in the heading of what is shown of a study with a training course; its other charts show less at this size"""


def charts_of(file: str, study: Study) -> dict[str, Chart]:
    """The charts of a study that the page shows, by the names of their files."""
    drawn = charts(study)
    if study.figure["kind"] in ("curves", "points"):
        drawn = [chart for chart in drawn if any(words in chart.heading for words in SHOWN)]
    return {Path(file).stem + chart.name.removeprefix(study.figure["name"]) + ".svg": chart for chart in drawn}


def links(file: str, study: Study) -> list[str]:
    """The pictures of a study as the page shows them."""
    heading = study.figure["heading"]
    return [
        f"![{heading}: {chart.heading}](images/{FOLDER.name}/{name})" for name, chart in charts_of(file, study).items()
    ]


def draw(studies: Studies, folder: Path = FOLDER) -> None:
    """Writes the pictures of all studies, and removes those of studies that are gone."""
    drawn = {
        name: chart
        for files in studies.values()
        for file, study in files
        for name, chart in charts_of(file, study).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(folder.glob("*.svg")) - {folder / name for name in drawn}:
        old.unlink()
    for name, chart in drawn.items():
        (folder / name).write_text(svg(chart), encoding="utf-8")
