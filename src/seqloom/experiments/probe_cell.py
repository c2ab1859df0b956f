"""The cell of a grid of probes: a small model trained on the questions of one probe, and its answers as rows."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import torch

from seqloom.core.state import nbytes
from seqloom.data.probes import Probe
from seqloom.experiments.study import Row, RunCell
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.training.objectives.probe import ProbeConfig
from seqloom.training.preparation import build


@final
class Answers(Row):
    """How many questions a model answered rightly: all of them, or those of one distance."""

    mixer: str
    probe: str
    difficulty: int
    settings: dict[str, Any]
    """of the probe"""
    chance: float
    optimum: float
    dim: int
    depth: int
    batch: int
    lr: float
    seed: int
    parameters: int
    batches: int
    seconds: float
    distance: tuple[int, int] | None
    """tokens between what is remembered and the question, from … to; None: all questions"""
    asked: int
    right: int
    accuracy: float | None
    """None where the loss became NaN"""
    failed: str | None = None
    """the reason where there are no answers"""
    test: dict[str, Any] | None = None
    """settings of the rows that were asked about, where they are not those that were learned"""
    state_bytes: int | None = None
    """of one row after its last token; None for a mixer that keeps no state"""


@final
@dataclass(frozen=True, kw_only=True)
class ProbeCell(RunCell):
    """A mixer in a model of some size, trained on a probe at a learning rate from a seed."""

    schema: ClassVar = Answers
    mixer: str
    title: str
    """the probe as it was named, with the settings that are not the difficulty's"""
    difficulty: int
    probe: Probe

    def read(self, run: Run, failed: str | None) -> list[Answers]:
        """All questions, then those of each distance; one row without answers where the loss became NaN."""
        rows = read(run.metrics)
        steps = [row for row in rows if "loss" in row]
        length = {"batches": len(steps), "seconds": round(sum(row["seconds"] for row in steps), 2)}
        shared = {**self._shared(), **length}
        if failed is not None:
            return [Answers(**shared, distance=None, asked=0, right=0, accuracy=None, failed=failed)]
        score = [row for row in rows if "held_out" in row][-1]
        return [Answers(**shared, **row) for row in score["answers"]]

    def tidy(self, folder: Path) -> None:
        """Removes the checkpoints: the rows are all that a probe is trained for."""
        shutil.rmtree(Run(folder).checkpoints, ignore_errors=True)

    def text(self, rows: Sequence[Answers]) -> str:
        """The share of right answers."""
        whole = rows[0]
        if whole.accuracy is None:
            return "did not converge"
        return f"right {whole.accuracy:.1%} after {whole.batches:,} batches"

    def _shared(self) -> dict[str, Any]:
        """The fields that are known before training."""
        model, training = self.config.layered, self.config.training
        objective = training.objective
        assert isinstance(objective, ProbeConfig)
        asked = objective.asked
        with torch.device("meta"):
            learner = build(self.config, None)
            streams = learner.model.traits.streams
            state = nbytes(learner.model.start(1, capacity=asked.row_tokens)) if streams else None
        return {
            "mixer": self.mixer,
            "probe": self.title,
            "difficulty": self.difficulty,
            "settings": self.probe.model_dump(mode="json"),
            "chance": self.probe.chance,
            "optimum": self.probe.optimum,
            "dim": model.dim,
            "depth": model.depth,
            "batch": training.batch,
            "lr": training.lr,
            "seed": training.seed,
            "parameters": sum(weights.numel() for weights in learner.parameters()),
            "test": None if asked == self.probe else asked.model_dump(mode="json"),
            "state_bytes": state,
        }
