"""`seqloom evaluate` of a model that classifies pictures by their patches."""

import json
from pathlib import Path
from typing import Any

from seqloom.core.table import table
from seqloom.data.pictures.patches import read_known_patches
from seqloom.face import load
from seqloom.training.objectives.patches import Patches


def score_patches(run: Path, data: str, batch: int, step: int | None, as_json: bool) -> str:
    """The share of right labels of all pictures of a source, as text or as one JSON object.

    ValueError where the pictures or their labels are not those of the model.
    """
    model: Any = load(run, step=step)
    config = model.config
    pictures = read_known_patches(data, config.patch, config.shape, config.labels)
    row = Patches(pictures, pictures, batch).score(model, None)
    if as_json:
        return json.dumps(row)
    names = {"held_out": "loss, nats per picture", "chance": "accuracy of always saying the commonest label"}
    return table((str(run), data), [(names.get(name, name), row[name]) for name in row])
