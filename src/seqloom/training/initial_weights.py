"""A run that begins with the weights of another, where names and shapes agree; what is new keeps its first values.

seqloom train paper/small --set 'model.mixer=[{kind: attention}, {kind: memorizing}]' --from runs/plain --out runs/more
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from seqloom.core.divided import like
from seqloom.core.model import Model
from seqloom.core.model_config import ModelConfig
from seqloom.core.progress import Say
from seqloom.models.foreign import load as foreign
from seqloom.runs.adapters import plain_name, with_merged_adapters
from seqloom.runs.checkpoint import Checkpoint, peek
from seqloom.runs.code import changed_kinds, changed_words, codes, of_meta
from seqloom.runs.layout import find_run
from seqloom.runs.model import config_of

OF_TOKENS = frozenset({"token.weight", "head.weight", "head.bias"})
"""weights with a row for each token"""
SHOWN = 5
"""how many names of a list are printed"""


@torch.no_grad()
def copy_weights(model: Model, folder: str, say: Say) -> None:
    """Copies the weights of a run's newest checkpoint into a model, where they fit; call `require` first."""
    if find_run(folder).is_foreign:
        saved_weights: Mapping[str, Tensor] = foreign.load(find_run(folder).folder).state_dict()
        origin = folder
    else:
        saved = _newest(folder)
        edited = changed_kinds(of_meta(saved.meta), codes(model.config))
        if edited:
            say(f"{changed_words(edited)} {folder} was saved: its weights are of another equation")
        saved_weights = saved.tensors["model"]
        origin = f"{folder}, step {saved.step:,}"
    weights = {plain_name(name): tensor for name, tensor in model.state_dict().items() if ".lora_" not in name}
    tokens = len(saved_weights.get("token.weight", ()))
    saved_weights = _of_known_tokens(weights, saved_weights)
    padding = tokens - len(saved_weights.get("token.weight", ()))
    copied = _agreeing(weights, saved_weights)
    for name in copied:
        weights[name].copy_(like(saved_weights[name], weights[name]))
    new = _list_names(weights.keys() - set(copied))
    unused = _list_names(saved_weights.keys() - set(copied))
    notes = [f"; without {padding:,} rows of tokens that the tokenizer has not" if padding else ""]
    notes += [f"; new here: {new}" if new else "", f"; not taken: {unused}" if unused else ""]
    say(f"{len(copied)} of {len(weights)} tensors are those of {origin}{''.join(notes)}")


def require(config: ModelConfig, folder: str, tokenizer: str | None) -> None:
    """Raises ValueError, in one line, for a run of another tokenizer, and where no weight agrees.

    `tokenizer` is the digest of the new run's. FileNotFoundError where there is no run or no checkpoint.
    """
    run = find_run(folder)
    described = config_of(run)
    if run.is_foreign:
        if not _agreeing(config.tensors(), described.tensors()):
            raise ValueError(f"{folder} has no weight of the name and shape of one of this model: begin with another")
        return
    if tokenizer is not None and run.settings.get("tokenizer") not in (None, tokenizer):
        raise ValueError(f"{folder} has another tokenizer: add --set data.tokenizer={folder}/tokenizer.json")
    if not _agreeing(config.tensors(), _newest(folder).tensors["model"]):
        raise ValueError(f"{folder} has no weight of the name and shape of one of this model: begin with another run")


def _newest(folder: str) -> Checkpoint:
    """The newest checkpoint of a run that verifies, without adapters; FileNotFoundError where there is none."""
    run = find_run(folder)
    saved = peek(run.checkpoints)
    if saved is None:
        raise FileNotFoundError(f"{folder} has no checkpoint that can be read: train it first")
    return with_merged_adapters(saved, run.settings)


def _of_known_tokens(weights: Mapping[str, Tensor], saved_weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The saved weights without the rows of tokens that the tokenizer has not: embeddings are often padded."""
    fitting = dict(saved_weights)
    for name in OF_TOKENS & weights.keys() & saved_weights.keys():
        tokens = len(weights[name])
        if tokens < len(saved_weights[name]):
            fitting[name] = saved_weights[name][:tokens]
    return fitting


def _agreeing(weights: Mapping[str, Tensor], saved_weights: Mapping[str, Tensor]) -> list[str]:
    """The names that both have, with the same shape."""
    return [
        name for name, tensor in weights.items() if name in saved_weights and saved_weights[name].shape == tensor.shape
    ]


def _list_names(names: Any) -> str:
    """Some names, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - SHOWN} more" if len(ordered) > SHOWN else ""
    return ", ".join(ordered[:SHOWN]) + more
