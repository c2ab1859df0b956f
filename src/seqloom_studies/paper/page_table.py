"""The table of a figure: for each model means over its seeds, differences to the baseline, progress of its cells."""

from dataclasses import dataclass
from typing import final

from seqloom.core.statistics import Estimate
from seqloom_studies.paper.compared import Compared
from seqloom_studies.paper.page_rows import Line, Study

Value = float | int | str | None


@final
@dataclass(frozen=True)
class Column:
    """A column; `better` says whether lower or higher values are better, `text` whether its cells are text."""

    name: str
    meaning: str
    better: str = ""
    text: bool = False


def columns(study: Study) -> list[Column]:
    """The columns for which this figure has values."""
    stretch, over = study.figure.stretch, study.figure.over
    compared = [Compared(study, "training"), Compared(study, "held_out")]
    several = any(
        estimate.half is not None
        for comparison in compared
        for line in study.lines
        if (estimate := comparison.mean(line))
    )
    interval = "half of Student's 95% interval of the mean, from the model's own seeds"
    difference_meaning = f"minus the held-out loss of {compared[1].baseline}"
    difference_meaning += f" at the same {over}" if over else ""
    table_columns = [
        *([Column(over, f"what the figure varies: {over}")] if over else []),
        Column(
            "training loss", f"nats per token, median of the last {stretch:,} batches, mean over the seeds", "lower"
        ),
        *([Column("± training", interval)] if several else []),
        Column("held-out loss", "nats per token over held-out text, after all batches, mean over the seeds", "lower"),
        *([Column("± held-out", interval)] if several else []),
        *([Column("to baseline", difference_meaning, "lower")] if compared[1].differences else []),
        *([Column("± to baseline", "half of the 95% interval of that difference, not corrected")] if several else []),
        *(
            [Column("adjusted p", "that it is 0, by Holm over the table; below 0.05 it is significant")]
            if several
            else []
        ),
        Column("parameters", "trainable numbers of the whole model", "lower"),
        Column("operations a token", "of the whole model's equation, forward, mean over a full window", "lower"),
        Column("ms a batch", "median of the run's batches, under the machine's other load at the time"),
        Column("batches", "done, of those asked for, of all seeds", text=True),
        Column("state", "of its cells", text=True),
    ]
    if any(line.known_values("raced") for line in study.lines):
        table_columns.insert(
            -3, Column("ms a step, raced", "a training step, median of a race in which all take turns", "lower")
        )
    return table_columns


def table_rows(study: Study) -> list[tuple[Line, list[Value]]]:
    """Each line with its cells, in the order of `columns`."""
    table_columns, training, held_out = columns(study), Compared(study, "training"), Compared(study, "held_out")
    lines = []
    for line in study.lines:
        difference = held_out.difference(line)
        values: dict[str, Value] = {
            study.figure.over: line.x,
            "training loss": _mean(line, training),
            "± training": _half(training.mean(line)),
            "held-out loss": _mean(line, held_out),
            "± held-out": _half(held_out.mean(line)),
            "to baseline": difference.estimate.mean if difference else None,
            "± to baseline": _half(difference.estimate if difference else None),
            "adjusted p": difference.adjusted if difference else None,
            "parameters": line.seeds[0].row.parameters,
            "operations a token": line.seeds[0].row.operations,
            "ms a batch": _ms(line.mean("seconds")),
            "ms a step, raced": _ms(line.mean("raced")),
            "batches": _batches(line),
            "state": _state(line),
        }
        lines.append((line, [values[column.name] for column in table_columns]))
    return lines


def _mean(line: Line, compared: Compared) -> float | None:
    """The mean of the finished cells; before any is finished, the mean of all so far."""
    estimate = compared.mean(line)
    return estimate.mean if estimate else line.mean(compared.loss)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _half(estimate: Estimate | None) -> float | None:
    return estimate.half if estimate else None


def _batches(line: Line) -> str:
    done = sum(seed.row.batches for seed in line.seeds)
    asked = sum(seed.row.asked for seed in line.seeds)
    return f"{done:,}" if done == asked else f"{done:,} of {asked:,}"


def _state(line: Line) -> str:
    """`done`, or `unfinished` with the number of seeds that are done; and the reason of the first that failed."""
    reasons = [seed.row.failed for seed in line.seeds if seed.row.failed]
    done = sum(seed.row.finished for seed in line.seeds)
    state = "done" if done == len(line.seeds) else "unfinished"
    state += f", {done} of {len(line.seeds)} seeds" if state == "unfinished" and done else ""
    return f"{state}; failed: {reasons[0]}" if reasons else state
