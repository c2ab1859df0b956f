"""A model's state on disk, from which it can continue later, verified like a checkpoint.

A state is valid only for the weights, and for the code, that made it, so it is saved with their hash.
"""

import hashlib
from pathlib import Path

import torch

from seqloom.core.model import Model
from seqloom.core.state import ModelState, bound_state, fill_state, flat, length_of
from seqloom.runs import checkpoint
from seqloom.runs.code import codes
from seqloom.runs.durable import canonical

FORMAT = 5
"""the version of the states' layout; 5: by layer and sublayer"""


def save_state(model: Model, state: ModelState, folder: str | Path) -> Path:
    """Saves a state, trimmed and contiguous, complex numbers as pairs of reals; returns where it lies.

    A state of as many tokens in the same folder is replaced. Raises as `checkpoint.save` does.
    """
    tokens = length_of(bound_state(state.extra)).bound
    assert tokens is not None, "a saved state has values"
    meta = {"model": model_hash(model), "state": FORMAT}
    return checkpoint.save(folder, tokens, {"state": flat(model.trim(state))}, meta)


def load_state(model: Model, path: str | Path) -> ModelState:
    """The state in `path`, on the model's device. ValueError where another model or version made it, or
    it is damaged."""
    saved = checkpoint.load(path)
    if saved.meta.get("state") != FORMAT:
        raise ValueError(
            f"{path} is a state that another version of seqloom laid out: let the model read the text again"
        )
    if saved.meta.get("model") != model_hash(model):
        raise ValueError(f"{path} is a state of another model or of other weights: load the model that made it")
    device = model.device
    tensors = {name: tensor.to(device) for name, tensor in saved.tensors["state"].items()}
    try:
        return fill_state(model.start(1), tensors)
    except ValueError as error:
        raise ValueError(f"{path} is no state of this model: {error}") from None


def model_hash(model: Model) -> str:
    """sha256 over a model's settings, codes and weights, 64 hexadecimal digits."""
    digest = hashlib.sha256(canonical(model.config.model_dump(mode="json")).encode())
    if code := codes(model.config):
        digest.update(canonical(code).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
