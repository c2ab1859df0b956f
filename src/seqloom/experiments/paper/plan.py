"""What a grid will take before it begins: cells, batches, seconds a batch, hours.

Seconds are the median of the rows of a cell of the same model where there are enough of them, and of a few steps on
noise, timed now, where there are not. Scoring held-out text is taken as a third of a step a batch (forward only).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from seqloom.analysis.measure import seconds
from seqloom.core.progress import clock, progress
from seqloom.core.table import table
from seqloom.experiments.noise import training_step
from seqloom.experiments.paper.grid import Cell, Grid, Model
from seqloom.experiments.paper.standing import Standing, standing
from seqloom.ops.backends import use
from seqloom.training.memory import keep_freed_memory

STEPS = 3
"""timed steps of a model that has no rows yet, after one that is not timed"""
ENOUGH = 20
"""rows of a run that say what a batch takes"""


@final
@dataclass(frozen=True)
class Part:
    """All cells of one model."""

    model: Model
    cells: int
    finished: int
    batches: int
    """all of its cells"""
    left: float
    """batches still to be done, those of held-out text included as parts of one"""
    seconds: float | None
    """of a batch; None where nothing is left to do"""
    timed: str
    """where the seconds are from"""

    @property
    def hours(self) -> float:
        """What is left, one cell after another."""
        return self.left * (self.seconds or 0.0) / 3600


@final
@dataclass(frozen=True)
class Plan:
    """The parts of a grid."""

    parts: tuple[Part, ...]

    @property
    def hours(self) -> float:
        """What is left, one cell after another."""
        return sum(part.hours for part in self.parts)

    def __str__(self) -> str:
        """A table by model, and the sum in one line."""
        head = ("model", "cells", "finished", "batches", "ms a batch", "measured", "left (h:m:s)")
        rows = [
            (each.model.name, each.cells, each.finished, each.batches, each.seconds and 1e3 * each.seconds, each.timed,
             clock(3600 * each.hours))
            for each in self.parts
        ]  # fmt: skip
        cells, batches = sum(part.cells for part in self.parts), sum(part.batches for part in self.parts)
        done = sum(part.finished for part in self.parts)
        said = f"{cells:,} cells of {batches:,} batches in all, {done:,} finished; about {self.hours:.2f} hours left"
        return f"{table(head, rows)}\n\n{said}, one cell after another, held-out text included"


def plan(grid: Grid, cells: Sequence[Cell]) -> Plan:
    """Reads and times what there is to know; starts no training. ValueError where a model has no room."""
    parts: dict[Model, list[Cell]] = {}
    for cell in cells:
        parts.setdefault(cell.model, []).append(cell)
    stands = {model: _stands(grid, own) for model, own in parts.items()}
    unknown = [model for model, found in stands.items() if _measured(found) is None and not _all(found)]
    timed = _times(grid, unknown)
    return Plan(tuple(_part(grid, model, stands[model], timed.get(model)) for model in parts))


def _stands(grid: Grid, cells: Sequence[Cell]) -> list[Standing]:
    asked = grid.config(cells[0].model).training.batches
    return [standing(grid.folder(cell), asked) for cell in cells]


def _all(stands: Sequence[Standing]) -> bool:
    return all(each.finished for each in stands)


def _measured(stands: Sequence[Standing]) -> float | None:
    known = [each.seconds for each in stands if each.seconds is not None and len(each.costs) >= ENOUGH]
    return statistics.median(known) if known else None


def _part(grid: Grid, model: Model, stands: Sequence[Standing], timed: float | None) -> Part:
    training, context = grid.config(model).training, grid.config(model).model.context
    scoring = len(grid.corpus.held) / (training.batch * context) / 3
    left = 0.0
    for each in stands:
        steps = training.batches - each.batches
        every = training.evaluate_every or training.batches
        scores = 0 if each.finished else max(1, -(-training.batches // every) - each.batches // every)
        left += steps + scores * scoring
    measured = _measured(stands)
    finished = sum(each.finished for each in stands)
    took, source = (measured, "its rows") if measured is not None else (timed, f"{STEPS} steps now")
    return Part(model, len(stands), finished, training.batches * len(stands), left, took, source if took else "")


def _times(grid: Grid, models: Sequence[Model]) -> dict[Model, float]:
    """Seconds of a training step of each model, alone, on noise."""
    found: dict[Model, float] = {}
    if not models:
        return found
    keep_freed_memory()
    with torch.random.fork_rng(devices=[]), progress("timing", len(models), "models") as advance:
        for model in models:
            config = grid.config(model)
            with use(**config.backends):
                found[model] = seconds(training_step(config.model, config.training), STEPS).median
            advance(note=model.name)
    return found
