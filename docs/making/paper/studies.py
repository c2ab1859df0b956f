"""A study's own table on the page of the replication: its models, their losses at the end, and the command."""

from collections.abc import Sequence

from docs.making.paper.pictures import links
from docs.making.paper.rules import name
from docs.making.paper.verdicts import said_p, shown
from docs.making.tables import table
from seqloom.core.statistics import Difference, Estimate
from seqloom.report.study.compared import Compared, Loss
from seqloom.report.study.rows import Line, Study

LOSSES: tuple[Loss, ...] = ("training", "held_out")


def section(file: str, plate: Study) -> str:
    """A study: what it is, its models with their losses at the end, and the command."""
    figure = plate.figure
    differs = f" With {figure['differs']}." if figure["differs"] else " With the paper's own settings."
    says = f"{figure['says']}{differs} {_seeds(plate)}; `{figure['text']}`."
    over = [figure["over"]] if figure["over"] else []
    timed = any(line.known("raced") for line in plate.lines)
    clock = ["ms a step, all by turns"] if timed else []
    compared = [Compared(plate, loss) for loss in LOSSES]
    apart = [f"to {name(compared[0].baseline)}"] if compared[0].differences else []
    head = [
        "model",
        *over,
        f"training loss, last {figure['stretch']:,}",
        *apart,
        "held-out loss",
        *apart,
        "parameters",
        "operations a token",
        *clock,
        "finished",
    ]
    rows = [_row(line, compared, bool(over), timed) for line in plate.lines]
    parts = [f"### {figure['heading']}, {figure['batches']:,} batches", says, table(head, rows)]
    parts += [_beneath(compared)] if apart else []
    parts += ["\n".join(f"- {note}" for note in figure["notes"])] if figure["notes"] else []
    thinned = "of all batches, each n-th is kept; " if figure["kind"] == "batches" else ""
    parts += links(file, plate)
    parts.append(f"[The rows](../results/paper/{file}); {thinned}{origin(figure['origin'])}:")
    return "\n\n".join([*parts, f"```sh\n{figure['origin']['command']}\n```"])


def origin(said: dict[str, str]) -> str:
    """Machine, commit and day of rows."""
    return f"{said['machine']}, commit {said['commit']}, {said['date']}"


def _seeds(plate: Study) -> str:
    count = plate.figure["seeds"]
    return "One seed" if count == 1 else f"{count} seeds; ± is half of a 95% interval"


def _beneath(compared: Sequence[Compared]) -> str:
    """The smallest differences that the table could have settled."""
    training, held_out = (name(each.beneath) for each in compared)
    return held_out if training == held_out else f"Training: {training} Held out: {held_out}"


def _row(line: Line, compared: Sequence[Compared], swept: bool, timed: bool) -> Sequence[object]:
    cells = [cell for each in compared for cell in _loss(line, each)]
    sizes = [f"{line.seeds[0].row[column]:,}" for column in ("parameters", "operations")]
    done = sum(seed.row["finished"] for seed in line.seeds)
    place = [f"{line.x:g}"] if swept and line.x is not None else []
    seconds = line.mean("raced")
    clock = [] if not timed else ["-" if seconds is None else f"{1000 * seconds:.1f}"]
    return [name(line.series), *place, *cells, *sizes, *clock, f"{done} of {len(line.seeds)}"]


def _loss(line: Line, compared: Compared) -> list[str]:
    """A model's loss, and, where the table has differences, that to the baseline."""
    mean = [_mean(compared.mean(line))]
    return [*mean, _apart(compared.difference(line))] if compared.differences else mean


def _mean(found: Estimate | None) -> str:
    if found is None:
        return "-"
    return f"{found.mean:.3f}" + ("" if found.half is None else f" ± {found.half:.3f}")


def _apart(found: Difference | None) -> str:
    if found is None:
        return "-"
    return shown(found.estimate) + (
        "" if found.adjusted is None else f" ({said_p(found.adjusted).removeprefix('adjusted ')})"
    )
