"""One model trained on one probe, in a folder of its own: interrupted it goes on, finished it is kept.

config.json, metrics.jsonl   the run, as of any training     rows.json   what was found, once it was
checkpoints/                 until then
"""

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from seqloom.analysis.origin import origin
from seqloom.core.progress import Advance
from seqloom.data.probes import Probe
from seqloom.evaluation.answers import Row
from seqloom.experiments.stopped import Stopped
from seqloom.runs.layout import Run, open_run, read_json, write_json
from seqloom.runs.lock import lock
from seqloom.runs.metrics import read
from seqloom.training.config import RunConfig
from seqloom.training.loop import NotFinite
from seqloom.training.preparation import build, identity
from seqloom.training.train import Say, Show, train

KEPT = "rows.json"


@final
@dataclass(frozen=True)
class Cell:
    """A mixer in a model of some size, a probe, a learning rate, a seed."""

    mixer: str
    title: str
    """the probe as it was named, with the settings that are not the dial's"""
    difficulty: int
    probe: Probe
    config: RunConfig

    @property
    def folder(self) -> Path:
        """Where it is kept, beneath the folder of them all."""
        sizes = f"dim-{self.config.model.dim}-lr-{self.config.training.lr:g}-seed-{self.config.training.seed}"
        return Path(f"{self.title.replace(':', '-')}-{self.difficulty}") / self.mixer / sizes


def answered(cell: Cell, out: Path, command: str, say: Say, show: Show) -> list[Row]:
    """The rows of a cell: those it has, or those found by training it, from where that stopped.

    `Stopped` when a signal stopped it, and it was saved; ValueError where the folder holds a cell of other settings.
    """
    folder = out / cell.folder
    if (folder / KEPT).exists():
        with lock(folder):
            open_run(folder, identity(cell.config, None))
        return _kept(folder)

    def named(line: str) -> None:
        say(f"{cell.folder}: {line}")

    def shown(_: str, *values: Any, **options: Any) -> AbstractContextManager[Advance]:
        return show(str(cell.folder), *values, **options)

    try:
        outcome = train(
            cell.config, folder, allow_drift=True, say=lambda line: say(f"{cell.folder}: {line}"), show=show
        )
    except NotFinite as error:  # a learning rate too high for a mixer is a finding, and does not abort the others
        named(str(error))
        _keep(folder, _failed(cell, folder, str(error)), command)
        return _kept(folder)
    if outcome.asked is None:
        _keep(folder, _found(cell, folder), command)
    if outcome.signal is not None:
        raise Stopped(str(cell.folder), 128 + int(outcome.signal))
    return _kept(folder)


def _kept(folder: Path) -> list[Row]:
    rows: list[Row] = read_json(folder / KEPT)
    return rows


def _keep(folder: Path, rows: list[Row], command: str) -> None:
    """Writes the rows of a cell, which needs no checkpoints then."""
    with lock(folder):
        write_json(folder / KEPT, [{**row, **origin(command)} for row in rows])
        shutil.rmtree(Run(folder).checkpoints, ignore_errors=True)


def _found(cell: Cell, folder: Path) -> list[Row]:
    """The rows of a cell that was trained: all questions, then by distance."""
    score = [row for row in read(Run(folder).metrics) if "held_out" in row][-1]
    shared = {**_settings(cell), **_length(folder)}
    return [{**shared, **row} for row in score["answers"]]


def _failed(cell: Cell, folder: Path, reason: str) -> list[Row]:
    """The row of a cell that did not converge."""
    nothing = {"distance": None, "asked": 0, "right": 0, "accuracy": None}
    return [{**_settings(cell), **nothing, **_length(folder), "failed": reason}]


def _length(folder: Path) -> Row:
    """How long the training was."""
    steps = [row for row in read(Run(folder).metrics) if "cost" in row]
    return {"batches": len(steps), "seconds": round(sum(row["seconds"] for row in steps), 2)}


def _settings(cell: Cell) -> Row:
    """What is known before training."""
    config = cell.config
    with torch.device("meta"):
        learner = build(config, None)
    return {
        **{"mixer": cell.mixer, "probe": cell.title, "difficulty": cell.difficulty},
        "settings": cell.probe.model_dump(),
        **{"chance": cell.probe.chance, "optimum": cell.probe.optimum},
        **{"dim": config.model.dim, "depth": config.model.depth, "batch": config.training.batch},
        **{"lr": config.training.lr, "seed": config.training.seed},
        "parameters": sum(weights.numel() for weights in learner.parameters()),
    }
