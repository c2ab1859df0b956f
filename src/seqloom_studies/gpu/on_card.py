"""A measurement on a card: its models, the ways in which their steps run, and the memory that it gives back."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from seqloom.studies.study import Cell
from seqloom.training.config import RunConfig
from seqloom.training.loop import Steps
from seqloom_studies.gpu.card import Card

WARM = 4
"""steps before the first turn: a captured step is recorded in the first, and runs one ahead of the host"""
EAGER = ("training.graph=none",)
CAPTURED = ("training.graph=auto",)


@dataclass(frozen=True, kw_only=True)
class OnCard(Cell):
    """A measurement, whose rows depend on the code and the card."""

    alone: ClassVar = True
    models: dict[str, RunConfig]
    """by name"""
    card: Card
    code_digest: str

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its models, the card and the code."""
        models = {name: config.model_dump(mode="json") for name, config in self.models.items()}
        return {"models": models, "card": self.card.settings, "digest": self.code_digest}


def step_counter(steps: Steps) -> Callable[[], object]:
    """A function that does the next step."""
    number = iter(range(10**9))
    return lambda: steps(next(number))


def free_memory(card: Card) -> None:
    """Gives the memory of models that are gone back to the card."""
    gc.collect()
    if card.device == "cuda":
        torch.cuda.empty_cache()
