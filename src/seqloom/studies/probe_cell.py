"""The cell of a grid of probes that trains a small model on one probe; its rows have the accuracy of the answers."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from typing_extensions import override

from seqloom.core.state import nbytes
from seqloom.data.probes import Probe
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.studies.study import Row, RunCell
from seqloom.training.objectives.probe import ProbeConfig
from seqloom.training.preparation import build


@final
class Answers(Row):
    """The accuracy of a model's answers to all questions, or to those of one range of distances."""

    mixer: str
    probe: str
    difficulty: int
    settings: dict[str, Any]
    """settings of the probe"""
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
    """range of distances in tokens from the question back to what must be remembered; None for all questions"""
    asked: int
    right: int
    accuracy: float | None
    """None where the loss became NaN"""
    failed: str | None = None
    """the reason where there are no answers"""
    test: dict[str, Any] | None = None
    """settings of the probe in the test, where they differ from those in training"""
    state_bytes: int | None = None
    """bytes of the state of one row after its last token; None for a mixer without a state"""


@final
@dataclass(frozen=True, kw_only=True)
class ProbeCell(RunCell):
    """Trains a model with a mixer on a probe, at a learning rate, from a seed."""

    schema: ClassVar = Answers
    mixer: str
    title: str
    """the probe as the user named it, with the settings that the difficulty does not set"""
    difficulty: int
    probe: Probe

    @property
    @override
    def about(self) -> str:
        return self.mixer

    def read(self, run: Run, failed: str | None) -> list[Answers]:
        """A row of all questions and one per range of distances.

        A single row without answers if the loss became NaN.
        """
        rows = read(run.metrics)
        steps = [row for row in rows if "loss" in row]
        seconds = round(sum(row["seconds"] for row in steps), 2)
        shared = {**self._known_fields(), "batches": len(steps), "seconds": seconds}
        if failed is not None:
            return [Answers(**shared, distance=None, asked=0, right=0, accuracy=None, failed=failed)]
        score = [row for row in rows if "held_out" in row][-1]
        return [Answers(**shared, **row) for row in score["answers"]]

    def tidy(self, folder: Path) -> None:
        """Removes the checkpoints, since only the rows of a probe are needed."""
        shutil.rmtree(Run(folder).checkpoints, ignore_errors=True)

    def text(self, rows: Sequence[Answers]) -> str:
        """The share of right answers."""
        row = rows[0]
        if row.accuracy is None:
            return "did not converge"
        return f"right {row.accuracy:.1%} after {row.batches:,} batches"

    def _known_fields(self) -> dict[str, Any]:
        """The fields that are known before training."""
        model, training = self.config.layered_model, self.config.training
        objective = training.objective
        assert isinstance(objective, ProbeConfig)
        test_probe = objective.question_probe
        with torch.device("meta"):
            learner = build(self.config, None)
            streams = learner.model.traits.streams
            state = nbytes(learner.model.start(1, capacity=test_probe.row_tokens)) if streams else None
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
            "test": None if test_probe == self.probe else test_probe.model_dump(mode="json"),
            "state_bytes": state,
        }
