"""Stages of a training: each has a number of batches, and a window, a learning rate and rows of its own.

    training.stages: [{batches: 2000, window: 64}, {batches: 1000, window: 256, lr: 3e-4}]

Together the stages are the whole run: `training.batches` is their sum. The schedule runs on over all of them, as a
share of the stage's learning rate. The model that is saved has the window of the last stage.

Source: Beltagy et al., Longformer, arXiv:2004.05150, section 4.2: windows and rows that double from stage to stage, and
half the learning rate. There each layer has a window of its own; all grow by one factor here.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import final

from pydantic import Field

from seqloom.core.config import Config
from seqloom.core.layered import require_layers
from seqloom.core.model_config import ModelConfig

LARGEST = 2**40
"""of what is counted in batches and windows"""
MOST = 1000
"""stages of a training"""


@final
class Stage(Config):
    """One stage of a training."""

    batches: int = Field(ge=1, le=LARGEST, description="optimizer steps of the stage")
    window: int | None = Field(
        None,
        ge=1,
        description="window, in tokens, of the mixers that have one; set in all stages or in none, but the last may "
        "leave it to the model",
    )
    lr: float | None = Field(None, gt=0, description="highest learning rate; unset: training.lr")
    context: int | None = Field(None, ge=1, description="tokens of a row, at most model.context; unset: model.context")

    @property
    def summary(self) -> str:
        """What it sets, in words."""
        parts = [
            f"{self.batches:,} batches",
            f"window {self.window:,}" if self.window is not None else "",
            f"rows of {self.context:,} tokens" if self.context is not None else "",
            f"learning rate {self.lr:g}" if self.lr is not None else "",
        ]
        return ", ".join(part for part in parts if part)


def stage_at(stages: Sequence[Stage], step: int) -> int:
    """The number, from 0, of the stage that a step, counted from 0, belongs to; beyond the last, the last."""
    ends = accumulate(stage.batches for stage in stages)
    return next((number for number, end in enumerate(ends) if step < end), max(len(stages) - 1, 0))


def first_step(stages: Sequence[Stage], number: int) -> int:
    """The step, counted from 0, that a stage begins with."""
    return sum(stage.batches for stage in stages[:number])


def require_whole(stages: Sequence[Stage], batches: int) -> None:
    """Raises ValueError unless the stages are a whole run of this many batches, and all or none have a window."""
    total = sum(stage.batches for stage in stages)
    if total != batches:
        raise ValueError(
            f"stages have {total:,} batches in all and training.batches is {batches:,}: leave training.batches out, or "
            "make them equal"
        )
    missing = [number for number, stage in enumerate(stages[:-1], 1) if stage.window is None]
    if missing and any(stage.window is not None for stage in stages):
        raise ValueError(f"stage {missing[0]} has no window and others have: give each stage one, or none")


def fit_window(model: ModelConfig, stages: Sequence[Stage], resizes: bool) -> ModelConfig:
    """The model's settings with the window of the last stage, if it has one.

    `resizes` says whether the objective has rows of any length. ValueError where a stage does not fit the model.
    """
    for number, stage in enumerate(stages, 1):
        if stage.context is not None:
            if not resizes:
                raise ValueError(f"training.stages: stage {number} has a context, but the objective's rows are given")
            if stage.context > model.context:
                raise ValueError(
                    f"training.stages: the context {stage.context:,} of stage {number} exceeds model.context "
                    f"{model.context:,}: lower it or raise model.context"
                )
        if stage.window is not None:
            rows = stage.context or model.context
            if stage.window > rows:
                raise ValueError(
                    f"training.stages: the window {stage.window:,} of stage {number} exceeds its context of {rows:,} "
                    "tokens: lower it or raise the context"
                )
            require_layers(model, "a window").with_window(stage.window)
    last = stages[-1].window if stages else None
    return model if last is None else require_layers(model).with_window(last)
