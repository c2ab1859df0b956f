"""Seconds of a training step of several models that take turns; OUT/times.json keeps them for this machine."""

from collections.abc import Sequence
from typing import Any

import torch

from seqloom.analysis.measure import race
from seqloom.analysis.origin import machine
from seqloom.core.progress import progress
from seqloom.experiments.noise import training_step
from seqloom.experiments.paper.grid import Grid, Model
from seqloom.runs.layout import read_json, write_json
from seqloom.training.memory import keep_freed_memory

ROUNDS = 5


def raced(grid: Grid, study: str, models: Sequence[Model]) -> dict[Model, float]:
    """The median of `ROUNDS` steps of each model, on batches of noise, all in one race."""
    path = grid.out / "times.json"
    kept: dict[str, Any] = read_json(path) if path.exists() else {}
    names = {model.name: model for model in dict.fromkeys(models)}
    known = kept.get(study, {})
    if known.get("machine") != machine() or set(known.get("seconds", {})) != set(names):
        known = {"machine": machine(), "rounds": ROUNDS, "seconds": _race(grid, names)}
        write_json(path, kept | {study: known})
    return {model: float(known["seconds"][name]) for name, model in names.items()}


def _race(grid: Grid, models: dict[str, Model]) -> dict[str, float]:
    keep_freed_memory()
    configs = {name: grid.config(model) for name, model in models.items()}
    with torch.random.fork_rng(devices=[]), progress("timing by turns", ROUNDS * len(models), "steps") as advance:
        steps = {name: training_step(config.model, config.training) for name, config in configs.items()}
        return {name: timing.median for name, timing in race(steps, ROUNDS, warm=1, after=advance).items()}
