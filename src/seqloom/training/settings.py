"""From a preset and changes to the settings of a run.

    resolve("paper/small", ["model.mixer.kind=she", "training.batches=100"])

How presets and changes are read: `preset_values`.
"""

from collections.abc import Sequence

import torch

from seqloom.core.config import read
from seqloom.core.model import ModelConfig
from seqloom.ops import backends
from seqloom.training.config import RunConfig
from seqloom.training.memory import weightless
from seqloom.training.optimizers import matrices_of
from seqloom.training.preset import preset_values, short


def resolve(preset: str, changes: Sequence[str] = (), source: str | None = None) -> RunConfig:
    """The settings of a preset with changes; `source`, where given, is the text, word for word and not as YAML.

    ValueError, in one line, for what is unknown or does not fit, sizes that a mixer refuses included.
    """
    config: RunConfig = read(RunConfig, preset_values(preset, changes, source))
    config = config.model_copy(update={"model": config.training.objective.sized(config.model)})
    backends.check(config.backends)
    _build(config.model)
    if config.training.optimizer == "muon":
        matrices_of(weightless(config.model))
    return config


def _build(model: ModelConfig) -> None:
    """What does not fit is said here, before a text is read or a folder made."""
    with torch.device("meta"):
        for mixer in dict.fromkeys(model.mixers):
            try:
                mixer.build(model.dim, model.context, model.causal)
            except RuntimeError as error:  # torch cannot count that far
                raise ValueError(f"{mixer.kind} cannot be built of these sizes ({short(str(error))})") from None
