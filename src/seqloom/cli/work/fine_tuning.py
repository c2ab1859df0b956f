"""Training that continues that of a model: its settings are those of the model, and adapters come from peft."""

import json

from seqloom.core.feed_forward import by_new_names
from seqloom.core.model import Model
from seqloom.runs.layout import find_run

PRESET = "llama/small"
"""whose settings of the optimizer are taken"""
TRAINING = {"batches": 1000, "batch": 8, "lr": 2e-4, "evaluate_every": 100, "save_every": 100}
"""what differs from them; ours, and none is tuned"""


def changes_for(begin: str) -> list[str]:
    """The settings of the run: the model and the tokenizer of the folder it begins with."""
    run = find_run(begin)
    settings = by_new_names(run.settings["model"])
    model = {name: value for name, value in settings.items() if name != "vocab"}  # which is the tokenizer's
    changes = [f"model={json.dumps(model)}"]
    changes += [f"training.{name}={value}" for name, value in TRAINING.items()]
    if run.has_tokenizer():
        tokenizer = run.folder if run.is_foreign else run.tokenizer
        changes += [f"data.tokenizer={json.dumps(str(tokenizer))}", "data.vocab=null"]
    return changes


def adapt(model: Model, rank: int, alpha: float | None) -> Model:
    """Gives a model adapters. ValueError, which names the extra, where peft is missing."""
    try:
        from seqloom.hf.lora import add_adapters
    except ImportError as error:
        raise ValueError(str(error)) from None
    return add_adapters(model, rank=rank, alpha=alpha)
