"""A study's own table on the page of the replication: its models, their costs at the end, and the command."""

from collections.abc import Sequence
from statistics import fmean

from docs.making.paper.pictures import links
from docs.making.paper.rules import name
from docs.making.paper.spreads import Column, Spread, half, spread
from docs.making.tables import table
from seqloom.report.plates.rows import Line, Plate

COLUMNS: tuple[Column, ...] = ("training", "held_out")


def section(file: str, plate: Plate) -> str:
    """A study: what it is, its models with their costs at the end, and the command."""
    figure = plate.figure
    differs = f" With {figure['differs']}." if figure["differs"] else " With the paper's own settings."
    says = f"{figure['says']}{differs} {_seeds(plate)}; `{figure['text']}`."
    over = [figure["over"]] if figure["over"] else []
    timed = any(line.known("raced") for line in plate.lines)
    clock = ["ms a step, all by turns"] if timed else []
    head = [
        "model",
        *over,
        f"training cost, last {figure['stretch']:,}",
        "held-out cost",
        "parameters",
        "operations a token",
        *clock,
        "finished",
    ]
    spreads = {column: spread(plate, column) for column in COLUMNS}
    rows = [_row(line, spreads, bool(over), timed) for line in plate.lines]
    parts = [f"### {figure['heading']}, {figure['batches']:,} batches", says, table(head, rows)]
    parts += ["\n".join(f"- {note}" for note in figure["notes"])] if figure["notes"] else []
    thinned = "of all batches, each n-th is kept; " if figure["kind"] == "batches" else ""
    parts += links(file, plate)
    parts.append(f"[The rows](../results/paper/{file}); {thinned}{origin(figure['origin'])}:")
    return "\n\n".join([*parts, f"```sh\n{figure['origin']['command']}\n```"])


def origin(said: dict[str, str]) -> str:
    """Machine, commit and day of rows."""
    return f"{said['machine']}, commit {said['commit']}, {said['date']}"


def _seeds(plate: Plate) -> str:
    count = plate.figure["seeds"]
    return "One seed" if count == 1 else f"{count} seeds; ± is half of the 95% interval of a mean"


def _row(line: Line, spreads: dict[Column, Spread | None], swept: bool, timed: bool) -> Sequence[object]:
    cells = [_cost(line, column, spreads[column]) for column in COLUMNS]
    sizes = [f"{line.seeds[0].row[column]:,}" for column in ("parameters", "operations")]
    done = sum(seed.row["finished"] for seed in line.seeds)
    place = [f"{line.x:g}"] if swept and line.x is not None else []
    seconds = line.mean("raced")
    clock = [] if not timed else ["-" if seconds is None else f"{1000 * seconds:.1f}"]
    return [name(line.series), *place, *cells, *sizes, *clock, f"{done} of {len(line.seeds)}"]


def _cost(line: Line, column: str, own: Spread | None) -> str:
    known = [seed.row[column] for seed in line.seeds if seed.row["finished"] and seed.row[column] is not None]
    if not known:
        return "-"
    wide = f" ± {half(own.of(line.series), len(known)):.3f}" if own and len(known) > 1 else ""
    return f"{fmean(known):.3f}{wide}"
