"""Which models are compiled in training (`seqloom.training.compiled`), and the reasons why others are not."""

from seqloom.core.model import Model
from seqloom.core.objective import Objective
from seqloom.models.block import Block
from seqloom.models.reversible import ReversibleBlock
from seqloom.models.transformer import Transformer
from seqloom.training.config import TrainConfig

COMPILED = "layers are compiled around their mixers: a run that goes on repeats its numbers up to rounding"
"""what is said of a run whose layers are compiled"""


def why_uncompiled(model: Model, objective: Objective, config: TrainConfig) -> str:
    """Why nothing of a model is compiled in training, in a few words; "" where its layers are."""
    layers = [module for module in model.modules() if isinstance(module, Block)]
    if not layers or not isinstance(model, Transformer):
        return f"model.kind={model.config.kind} has no layers around mixers"
    if any(isinstance(layer, ReversibleBlock) for layer in layers):
        return "reversible layers are computed again in the backward"
    if config.recompute == "layer":
        return "training.recompute=layer computes layers again in the backward"
    if getattr(model.config, "halt", False):
        return "positions of the model halt by themselves"
    if any(stage.context is not None for stage in config.stages):
        return "stages of the training have rows of different lengths"
    return objective.uncaptured_reason(1)
