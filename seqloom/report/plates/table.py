"""The table of a figure: a row for each model, means over its seeds, and how far its cells are."""

from dataclasses import dataclass
from typing import final

from seqloom.report.plates.rows import Line, Plate

Value = float | int | str | None


@final
@dataclass(frozen=True)
class Column:
    """A column; `better` is the order of merit, `text` whether it is no number."""

    name: str
    meaning: str
    better: str = ""
    text: bool = False


def columns(plate: Plate) -> list[Column]:
    """The columns that this figure has something for."""
    stretch, seeds = plate.figure["stretch"], plate.several
    over = plate.figure["over"]
    spread = "lowest and highest of the seeds"
    said = [
        *([Column(over, f"what the figure varies: {over}")] if over else []),
        Column("training cost", f"nats a token, median of the last {stretch:,} batches, mean over the seeds", "lower"),
        *([Column("training, seeds", spread, text=True)] if seeds else []),
        Column("held-out cost", "nats a token over held-out text, after all batches, mean over the seeds", "lower"),
        *([Column("held-out, seeds", spread, text=True)] if seeds else []),
        Column("parameters", "trainable numbers of the whole model", "lower"),
        Column("operations a token", "of the whole model's equation, forward, mean over a full window", "lower"),
        Column("ms a batch", "median of the run's batches, with whatever else the machine did meanwhile"),
        Column("batches", "done, of those asked for, of all seeds", text=True),
        Column("state", "of its cells", text=True),
    ]
    if any(line.known("raced") for line in plate.lines):
        said.insert(
            -3, Column("ms a step, raced", "a training step, median of a race in which all take turns", "lower")
        )
    return said


def values(plate: Plate, line: Line) -> list[Value]:
    """The cells of a line, in the order of `columns`."""
    known: dict[str, Value] = {
        plate.figure["over"]: line.x,
        "training cost": line.mean("training"),
        "training, seeds": _span(line, "training"),
        "held-out cost": line.mean("held_out"),
        "held-out, seeds": _span(line, "held_out"),
        "parameters": line.seeds[0].row["parameters"],
        "operations a token": line.seeds[0].row["operations"],
        "ms a batch": _ms(line.mean("seconds")),
        "ms a step, raced": _ms(line.mean("raced")),
        "batches": _batches(line),
        "state": _state(line),
    }
    return [known[column.name] for column in columns(plate)]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _span(line: Line, column: str) -> str:
    found = line.span(column)
    return f"{found[0]:.3f} … {found[1]:.3f}" if found else "-"


def _batches(line: Line) -> str:
    done, asked = (sum(seed.row[name] for seed in line.seeds) for name in ("batches", "asked"))
    return f"{done:,}" if done == asked else f"{done:,} of {asked:,}"


def _state(line: Line) -> str:
    """`done`, or how many seeds are, and why one failed."""
    why = [seed.row["failed"] for seed in line.seeds if seed.row["failed"]]
    done = sum(seed.row["finished"] for seed in line.seeds)
    said = "done" if done == len(line.seeds) else "unfinished"
    said += f", {done} of {len(line.seeds)} seeds" if said == "unfinished" and done else ""
    return f"{said}; failed: {why[0]}" if why else said
