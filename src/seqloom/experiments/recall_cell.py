"""One model trained on one probe, in a folder of its own: interrupted it goes on, finished it is kept.

config.json   what makes the result     rows.json   what was found, once it was     checkpoints/   until then
"""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from seqloom.analysis.origin import origin
from seqloom.core.device import chosen
from seqloom.core.progress import Advance
from seqloom.data.probes import Probe
from seqloom.experiments.recall_model import Answers, Batches
from seqloom.experiments.recall_scores import Row, score
from seqloom.experiments.stopped import Stopped
from seqloom.ops.backends import use
from seqloom.runs import checkpoint
from seqloom.runs.layout import Run, open_run, read_json, write_json
from seqloom.runs.lock import lock
from seqloom.training.config import RunConfig
from seqloom.training.drift import drifted, surroundings
from seqloom.training.loop import NotFinite, require_finite, updates
from seqloom.training.optimizers import optimizer
from seqloom.training.signals import Stop
from seqloom.training.train import Say

Show = Callable[..., AbstractContextManager[Advance]]
KEPT = "rows.json"
ROWS, CHECKED = 1024, 512
"""rows that a trained model, and one in training, are asked about"""
CHECK = 100
"""batches between looks at whether there is anything left to learn"""
SOLVED = 0.999
"""accuracy at which training ends: more could not be told from luck"""


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

    def identity(self) -> dict[str, Any]:
        """What must be equal for two cells to be the same; the text of the settings is none that is read."""
        said = self.config.model_dump(mode="json")
        data_seed, training = said.pop("data")["seed"], said["training"]
        for name in ("save_every", "evaluate_every", "device"):
            del training[name]
        return {"recall": 1, "probe": {"name": self.probe.name, **self.probe.model_dump()}, "rows": data_seed, **said}


def answered(cell: Cell, out: Path, command: str, say: Say, show: Show) -> list[Row]:
    """The rows of a cell: those it has, or those found by training it, from where that stopped.

    `Stopped` when a signal stopped it, and it was saved; ValueError where the folder holds a cell of other settings.
    """
    folder = out / cell.folder
    with lock(folder), use(**cell.config.backends), Stop() as stop:
        run = open_run(folder, cell.identity())
        if not (folder / KEPT).exists() and (rows := _found(cell, run, stop, say, show)) is not None:
            write_json(folder / KEPT, [{**row, **origin(command)} for row in rows])
            shutil.rmtree(run.checkpoints, ignore_errors=True)
    if stop.asked is not None:
        raise Stopped(str(cell.folder), 128 + int(stop.asked))
    kept: list[Row] = read_json(folder / KEPT)
    return kept


def _found(cell: Cell, run: Run, stop: Stop, say: Say, show: Show) -> list[Row] | None:
    """What the model knows once it is trained; None where a signal came before, and it was saved."""
    training, probe, rows_seed = cell.config.training, cell.probe, cell.config.data.seed
    torch.manual_seed(training.seed)
    model = Answers(cell.config.model, probe).to(chosen(training.device), training.dtype).train()
    told = _told(cell, model)
    updater = optimizer(model, training)
    batches = Batches(probe, rows_seed)
    inputs = batches.batch(0, training.batch)[:, 0, : cell.config.model.context]
    here, step, seconds = surroundings(model.decoder, inputs), 0, 0.0
    if (saved := checkpoint.newest(run.checkpoints, say)) is not None:
        for difference in drifted(saved.meta["surroundings"], here):
            say(f"{cell.folder} goes on elsewhere: {difference}")
        model.load_state_dict(saved.tensors["model"])
        updater.load(saved.tensors["optimizer"])
        step, seconds = saved.step, float(saved.meta["seconds"])
    update = updates(model, updater, batches, training)

    def save() -> None:
        tensors = {"model": model.state_dict(), "optimizer": updater.tensors()}
        checkpoint.save(run.checkpoints, step, tensors, {"surroundings": here, "seconds": seconds})
        checkpoint.prune(run.checkpoints, keep_last=1)

    right, solved = "", False
    try:
        with show(str(cell.folder), training.batches, "batches", start=step) as advance:
            while step < training.batches and not solved and not stop.asked:
                done = update(step)
                step, seconds = step + 1, seconds + done.seconds
                if step % CHECK == 0:
                    known = score(model, probe, rows_seed, CHECKED, batch=training.batch, first=ROWS).accuracy
                    right, solved = f", right {known:.1%}", known >= SOLVED
                advance(note=f"cost {done.cost:.3f}{right}")
                if step % training.save_every == 0:
                    save()
        if step < training.batches and not solved:
            save()
            return None
        require_finite(model, step)
    except NotFinite as error:  # a learning rate too high for a mixer is a finding, and no reason to stop the others
        say(f"{cell.folder}: {error}")
        failed = {"distance": None, "asked": 0, "right": 0, "accuracy": None}
        return [{**told, **failed, "batches": step, "seconds": round(seconds, 2), "failed": str(error)}]
    found = score(model, probe, rows_seed, ROWS, batch=training.batch)
    return [{**told, **row, "batches": step, "seconds": round(seconds, 2)} for row in found.rows()]


def _told(cell: Cell, model: Answers) -> Row:
    """What is known before training."""
    config = cell.config
    return {
        **{"mixer": cell.mixer, "probe": cell.title, "difficulty": cell.difficulty},
        "settings": cell.probe.model_dump(),
        **{"chance": cell.probe.chance, "optimum": cell.probe.optimum},
        **{"dim": config.model.dim, "depth": config.model.depth, "batch": config.training.batch},
        **{"lr": config.training.lr, "seed": config.training.seed},
        "parameters": sum(weights.numel() for weights in model.parameters()),
    }
