"""Which training steps can be recorded as a CUDA graph, and the reasons why others cannot."""

from typing import TYPE_CHECKING

import torch

from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.core.recording import takes_graphs

if TYPE_CHECKING:
    from seqloom.training.config import TrainConfig
    from seqloom.training.loop import Updates


def require_graph(config: "TrainConfig", device: torch.device) -> None:
    """Raises ValueError where the run is to be captured on a device that has no graphs."""
    if config.graph == "capture" and not takes_graphs(device):
        raise ValueError(
            f"training.graph=capture needs a GPU, and this run is on {device.type}: choose training.graph=auto"
        )


def why_uncaptured(updates: "Updates") -> str:
    """Why the steps of a run on a GPU are not captured, in a few words; "" where they can be."""
    config, model, objective = updates.config, updates.learner.model, updates.learner.objective
    if updates.group.size > 1:
        return "several processes train one model"
    if config.pieces > 1:
        return "training.pieces computes each piece again in the backward"
    mixers = [module for module in updates.learner.modules() if isinstance(module, Mixer)]
    reasons = [
        objective.uncaptured_reason(config.accumulate),
        model.uncaptured_reason,
        *(mixer.uncaptured_reason for mixer in mixers),
    ]
    return next((reason for reason in reasons if reason), "")


def changes_afterwards(model: Model) -> bool:
    """Whether anything changes in `after_update`: in a mixer that is not made of others, or in a model without any."""
    mixers = [module for module in model.modules() if isinstance(module, Mixer)]
    if not mixers:
        return type(model).after_update is not Model.after_update
    ends = [mixer for mixer in mixers if sum(isinstance(part, Mixer) for part in mixer.modules()) == 1]
    return any(type(mixer).after_update is not Mixer.after_update for mixer in ends)
