"""The price of a study or a training before it begins: parameters, memory, operations, time. Nothing is trained.

The seconds of a step are the median over the rows of a run of the same model, or, where there are not enough rows, over
a few steps on noise that are timed now. A batch of held-out text that is scored (forward only) counts as a third of a
step. A race counts as many steps as it has rounds.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import torch

from seqloom.analysis.measure import seconds
from seqloom.core.available_memory import format_bytes
from seqloom.core.progress import format_duration, progress
from seqloom.core.table import table
from seqloom.ops.backends import use
from seqloom.runs.durable import canonical
from seqloom.runs.metrics import read
from seqloom.studies.random_batches import training_step
from seqloom.studies.results import load
from seqloom.studies.runner import Workers, preview
from seqloom.studies.study import Cell, RunCell, Study
from seqloom.training.config import RunConfig
from seqloom.training.memory import activations, keep_freed_memory, require_room, weights
from seqloom.training.preparation import prepare_run

STEPS = 3
"""timed steps of a model without rows, after one step that is not timed"""
ENOUGH = 20
"""the fewest rows of a run from which the time of a batch is taken"""


@final
@dataclass
class Part:
    """All cells that train the same model."""

    name: str
    config: RunConfig
    runs: int = 0
    finished: int = 0
    batches: int = 0
    """batches of all its runs"""
    left: float = 0.0
    """training steps that are still to be done"""
    alone: float = 0.0
    """those of these steps that need the machine alone, because they are timed"""
    seconds_in_rows: list[float] = field(default_factory=list)
    """for each run with enough rows, the median seconds of a batch"""
    seconds: float = 0.0
    """seconds per batch"""
    timed: str = ""
    """the source of `seconds`: the rows of a run, or steps timed now"""

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return weights(self.config.model)[0]

    @property
    def untimed_reason(self) -> str | None:
        """Why a step cannot be timed before the training; None where it can be."""
        if self.config.model.fits:
            return "fitted without gradients"
        return self.config.training.objective.untimed or None

    @property
    def memory(self) -> int:
        """The fewest bytes of memory that training takes."""
        training = self.config.training
        return weights(self.config.model)[1] * (training.dtype.itemsize // 4) + activations(self.config.model, training)

    @property
    def operations(self) -> int:
        """Arithmetic operations of the forward equation for one batch."""
        return round(_mean(self.config, _operations))


@final
@dataclass(frozen=True)
class Plan:
    """The parts of a study."""

    parts: tuple[Part, ...]
    others: int
    """cells whose time is not predicted"""
    jobs: int = 1
    unplanned: tuple[str, ...] = ()
    """what the cells do besides, whose time is not predicted"""

    @property
    def hours(self) -> float:
        """The hours left: timed cells run one after another, other cells `jobs` at once."""
        shared = sum((part.left - part.alone) * part.seconds for part in self.parts) / self.jobs
        return (shared + sum(part.alone * part.seconds for part in self.parts)) / 3600

    def __str__(self) -> str:
        """A table with a line per model, and a line with the sums."""
        head = (
            "model",
            "runs",
            "finished",
            "batches",
            "parameters",
            "memory",
            "operations a batch",
            "ms a batch",
            "measured",
            "left (h:m:s)",
        )
        rows = [
            (
                part.name,
                part.runs,
                part.finished,
                None if part.config.model.fits else part.batches,
                part.parameters,
                format_bytes(part.memory),
                part.operations,
                1e3 * part.seconds if part.timed else None,
                part.timed,
                None if part.untimed_reason and not part.timed else format_duration(part.left * part.seconds),
            )
            for part in self.parts
        ]
        runs = sum(part.runs for part in self.parts)
        batches = sum(part.batches for part in self.parts if not part.config.model.fits)
        finished = sum(part.finished for part in self.parts)
        known = any(part.timed or part.untimed_reason is None for part in self.parts)
        left = f"; about {self.hours:.2f} hours left" if known else ""
        total = f"{runs:,} runs of {batches:,} batches in all, {finished:,} finished{left}"
        order = "one after another" if self.jobs == 1 else f"{self.jobs} at once"
        measurements = f", and {self.others:,} further measurements" if self.others else ""
        unplanned = list(self.unplanned)
        if any(part.config.model.fits for part in self.parts):
            unplanned.append("models that are fitted without gradients")
        if any(part.config.training.objective.untimed and not part.timed for part in self.parts):
            unplanned.append("models that play, whose steps cannot be timed before")
        not_included = f"; not included: {', '.join(unplanned)}" if unplanned else ""
        return f"{table(head, rows)}\n\n{total}, {order}, held-out text included{measurements}{not_included}"


def plan(study: Study, out: Path, workers: Workers | None = None) -> Plan:
    """The plan of a study, from its rows and from timed steps.

    Raises ValueError as `runner.run` does, and where a model does not fit into memory.
    """
    cells = preview(study, out)
    for cell in cells:
        cell.check(out / cell.name)
    parts: dict[str, Part] = {}
    others = 0
    for cell in cells:
        done = load(out / cell.name, cell) is not None
        others += not done and not cell.steps()
        for config, steps in cell.steps():
            part = parts.setdefault(_key(config), Part(_name(cell), config))
            _add(part, cell, steps, out / cell.name, done)
    jobs = workers.jobs if workers is not None and workers.cluster is None else 1
    unplanned = tuple(sorted({cell.unplanned for cell in cells if cell.unplanned}))
    return Plan(tuple(time_parts(list(parts.values()))), others, jobs, unplanned)


def time_parts(parts: Sequence[Part]) -> Sequence[Part]:
    """Sets the seconds of a batch of every part: from rows, or measured now on noise, one model at a time."""
    to_measure = []
    for part in parts:
        if part.seconds_in_rows:
            part.seconds, part.timed = statistics.median(part.seconds_in_rows), "its rows"
        elif part.left and part.untimed_reason is None:
            to_measure.append(part)
    if to_measure:
        keep_freed_memory()
        with torch.random.fork_rng(devices=[]), progress("timing", len(to_measure), "models") as advance:
            for part in to_measure:
                part.seconds, part.timed = _mean(part.config, _measured_seconds), f"{STEPS} steps now"
                advance(note=part.name)
    return parts


def training(config: RunConfig) -> str:
    """The text of the price of one training (`seqloom train --plan`). ValueError where it does not fit into memory."""
    from seqloom.core.device import choose_device

    if config.training.objective.sized_by_data:
        config = prepare_run(config).config
    require_room(config.model, choose_device(config.training.device), config.training)
    part = Part("", config, 1, 0, config.training.batches, config.training.batches)
    lines = [("parameters", f"{part.parameters:,}"), ("memory", f"{format_bytes(part.memory)} at least")]
    seconds_left = 0.0
    for number, stage in enumerate(config.by_stage, 1):
        part = Part("", stage, 1, 0, stage.training.batches, stage.training.batches)
        time_parts([part])
        seconds_left += part.left * part.seconds
        if config.training.stages:
            lines.append((f"stage {number}", config.training.stages[number - 1].summary))
        if part.untimed_reason is not None:
            return _align_columns([*lines, ("time", f"not known: {part.untimed_reason}")])
        time = (
            f"{1e3 * part.seconds:,.3g} ms a batch ({part.timed}), {format_duration(part.left * part.seconds)} in all"
        )
        lines += [("operations", f"{part.operations:,} a batch, forward"), ("time", time)]
    if config.training.stages:
        lines.append(("all stages", format_duration(seconds_left)))
    return _align_columns(lines)


def _align_columns(lines: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<12} {value}" for name, value in lines)


def _operations(config: RunConfig) -> int:
    """Arithmetic operations of the forward equation for one batch."""
    with torch.device("meta"):
        model = config.model.build()
    return model.cost(config.model.context).total * config.training.batch


def _measured_seconds(config: RunConfig) -> float:
    """The seconds of a training step on noise, timed now."""
    with use(**config.backends):
        return seconds(training_step(config.model, config.training), STEPS).median


def _mean(config: RunConfig, quantity: Callable[[RunConfig], float]) -> float:
    """The mean of a quantity over the batches of a run, whose stages have different settings."""
    return sum(stage.training.batches * quantity(stage) for stage in config.by_stage) / config.training.batches


def _key(config: RunConfig) -> str:
    """A key that is the same for runs that differ only in their seed."""
    settings = config.model_dump(mode="json")
    del settings["training"]["seed"]
    return canonical(settings)


def _name(cell: Cell) -> str:
    """The model of a cell: its name without the seed."""
    return cell.name.replace("/seed-", ".seed-").split(".seed-")[0].removeprefix("cells/")


def _add(part: Part, cell: Cell, steps: float, folder: Path, done: bool) -> None:
    """Adds a cell of `steps` training steps to its part: a run in `folder`, or a race."""
    if not isinstance(cell, RunCell):
        part.left += 0 if done else steps
        part.alone += 0 if done else steps
        return
    rows = read(folder / "metrics.jsonl") if (folder / "metrics.jsonl").is_file() else []
    times = [float(row["seconds"]) for row in rows if row.get("seconds") is not None]
    if len(times) >= ENOUGH:
        part.seconds_in_rows.append(statistics.median(times))
    part.runs += 1
    part.finished += done
    part.batches += cell.config.training.batches
    part.left += 0 if done else max(0.0, steps - len(times))
