"""Adapters of low rank in a training: their settings, and how they come into the model.

What adds them is handed to the trainer from above (`seqloom.hf.lora`), since it needs peft.
"""

from collections.abc import Callable
from typing import ClassVar, TypeAlias, final

import torch
from pydantic import Field

from seqloom.core.config import Config
from seqloom.core.model import Model

Adapt: TypeAlias = Callable[[Model, int, float | None], Model]
"""gives a model adapters, of a rank and an α, and freezes all else"""


@final
class LoraSettings(Config):
    """LoRA: frozen matrices, and trained changes of low rank."""

    rank: int = Field(
        0, ge=0, description="rank of the adapters of all linear layers inside the layers; 0: none, and all is trained"
    )
    alpha: float | None = Field(None, gt=0, description="α of an adapter's factor α / rank; unset: the rank")
    later: ClassVar = ("alpha",)


def require_adapt(settings: LoraSettings, adapt: Adapt | None) -> None:
    """ValueError where the settings ask for adapters, and nothing was handed over that adds them."""
    if settings.rank and adapt is None:
        raise ValueError("training.lora is for `seqloom train`: leave it out here")


def add_adapters(model: Model, settings: LoraSettings, adapt: Adapt | None, seed: int) -> None:
    """Gives the model of a run its adapters, drawn from the run's seed, if its settings have some."""
    if not settings.rank or adapt is None:
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        adapt(model, settings.rank, settings.alpha)
