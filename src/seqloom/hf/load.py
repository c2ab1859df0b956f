"""`seqloom.hf.load`: a folder that seqloom wrote for transformers, as the model of transformers that it holds."""

from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedModel

from seqloom.hf.config import SeqloomConfig
from seqloom.hf.register import WRAPPERS
from seqloom.hf.swap.classes import class_named
from seqloom.hf.swap.config import MODEL_TYPE


def load(folder: str | Path, **settings: Any) -> PreTrainedModel:
    """The model of a folder that `seqloom export hf`, `wrap` or `swap` made; `settings` are those of `from_pretrained`.

    FileNotFoundError where there is no folder; ValueError for another program's, or where a weight is missing or
    unknown.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} has no config.json: give the folder that save_pretrained wrote")
    config = AutoConfig.from_pretrained(folder)
    if config.model_type == SeqloomConfig.model_type:
        wrapper = WRAPPERS[config.of_model.kind]
    elif config.model_type == MODEL_TYPE:
        wrapper = class_named((config.architectures or [""])[0])
    else:
        raise ValueError(
            f"{folder} holds a model of type {config.model_type}, which seqloom did not write: read it with "
            "transformers, or with seqloom.load"
        )
    return wrapper.from_pretrained(folder, **settings)
