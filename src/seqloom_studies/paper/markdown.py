"""A study as Markdown: its models with their losses at the end, and the command that made its rows."""

from collections.abc import Sequence
from typing import get_args

from seqloom.core.statistics import Difference, p_text
from seqloom.core.table import markdown
from seqloom_studies.paper.compared import Compared, Loss, call_series
from seqloom_studies.paper.page_rows import Line, Origin, Study


def section(study: Study, below: Sequence[str] = (), rows: str = "Rows") -> str:
    """A study: its description, the table of its models, the lines `below` the table, and the origin of its `rows`."""
    figure = study.figure
    differs = f" With {figure.differs}." if figure.differs else " With the paper's own settings."
    says = f"{figure.says}{differs} {_seeds(study)}; `{figure.text}`."
    varied = [figure.over] if figure.over else []
    has_times = any(line.known_values("raced") for line in study.lines)
    time_column = ["ms a step, all by turns"] if has_times else []
    compared = [Compared(study, loss) for loss in get_args(Loss)]
    to_baseline = [f"to {call_series(compared[0].baseline)}"] if compared[0].differences else []
    head = [
        "model",
        *varied,
        f"training loss, last {figure.stretch:,}",
        *to_baseline,
        "held-out loss",
        *to_baseline,
        "parameters",
        "operations a token",
        *time_column,
        "finished",
    ]
    lines = [_row(line, compared, bool(varied), has_times) for line in study.lines]
    parts = [f"### {figure.heading}, {figure.batches:,} batches", says, markdown(head, lines)]
    parts += [_smallest_differences(compared)] if to_baseline else []
    parts += ["\n".join(f"- {note}" for note in figure.notes)] if figure.notes else []
    thinned = "of all batches, each n-th is kept; " if figure.kind == "batches" else ""
    parts += [*below, f"{rows}; {thinned}{origin(figure.origin)}:"]
    return "\n\n".join([*parts, f"```sh\n{figure.origin.command}\n```"])


def origin(source: Origin) -> str:
    """Machine, commit and day of rows."""
    return f"{source.machine}, commit {source.commit}, {source.date}"


def _seeds(study: Study) -> str:
    count = study.figure.seeds
    return "One seed" if count == 1 else f"{count} seeds; ± is half of a 95% interval"


def _smallest_differences(compared: Sequence[Compared]) -> str:
    """The smallest differences that would have been significant."""
    training, held_out = (call_series(comparison.smallest_difference) for comparison in compared)
    return held_out if training == held_out else f"Training: {training} Held out: {held_out}"


def _row(line: Line, compared: Sequence[Compared], varied: bool, has_times: bool) -> Sequence[object]:
    """The cells of a model, in the order of the head that `section` makes."""
    cells = [cell for comparison in compared for cell in _loss(line, comparison)]
    sizes = [f"{size:,}" for size in (line.seeds[0].row.parameters, line.seeds[0].row.operations)]
    done = sum(seed.row.finished for seed in line.seeds)
    x = [f"{line.x:g}"] if varied and line.x is not None else []
    seconds = line.mean("raced")
    time = []
    if has_times:
        time.append("-" if seconds is None else f"{1000 * seconds:.1f}")
    return [call_series(line.series), *x, *cells, *sizes, *time, f"{done} of {len(line.seeds)}"]


def _loss(line: Line, compared: Compared) -> list[str]:
    """A model's loss, and, where the table has differences, that to the baseline."""
    mean = [str(compared.mean(line) or "-")]
    return [*mean, _to_baseline(compared.difference(line))] if compared.differences else mean


def _to_baseline(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    p = "" if difference.adjusted is None else f" (p {p_text(difference.adjusted)})"
    return difference.estimate.signed_text + p
