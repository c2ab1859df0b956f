"""A model whose linear layers are in int8 (`seqloom.layers.int8_linear`); everything else stays as it is.

What stays: embeddings and an output layer tied to them, norms, taps, matrices that are no linear layer, and linear
layers whose matrix a mixer reads itself, in parts, which is found by reading two tokens and a further one.
"""

import copy

import torch
from torch import nn

from seqloom.core.model import Model, require_model
from seqloom.layers.int8_linear import Int8Linear
from seqloom.layers.linear import Linear


def quantize(model: Model) -> Model:
    """A copy for inference whose linear layers are in int8; the copy shares all other weights with the model.

    Outputs of a product are off by about 1%; benchmarks/int8.py measures the loss that this costs. TypeError unless it
    is a model of seqloom; ValueError for one that reads more than ids, and where no layer can be rounded.
    """
    require_model(model)
    if is_int8(model):
        raise ValueError("the model is in int8 already")
    if model.traits.translates or model.config.objective == "pairs" or model.config.looks_up:
        raise ValueError(f"a model of kind {model.config.kind} reads more than ids: it is not rounded to int8")
    weights = {id(parameter): parameter for parameter in model.parameters()}
    other = copy.deepcopy(model, dict(weights)).eval()
    linear = {name: module for name, module in other.named_modules() if type(module) is Linear}
    for name, layer in linear.items():
        _set_module(other, name, Int8Linear.of(layer))
    _read_tokens(other)
    for name, layer in linear.items():
        rounded = other.get_submodule(name)
        if isinstance(rounded, Int8Linear) and rounded.reads:
            _set_module(other, name, layer)
    if not is_int8(other):
        kinds = ", ".join(dict.fromkeys(mixer.kind for mixer in model.config.mixers)) or model.config.kind
        raise ValueError(f"no layer of this model ({kinds}) is a linear layer that can be rounded to int8")
    return other


def is_int8(model: nn.Module) -> bool:
    """Whether a layer of the model is in int8."""
    return any(isinstance(module, Int8Linear) for module in model.modules())


@torch.no_grad()
def _read_tokens(model: Model) -> None:
    """Computes two tokens at once, and one from a state, as far as the model can."""
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    model(ids)
    if model.traits.streams:
        _, state = model.extend(ids, model.start(1, capacity=3))
        model.step(ids[:, 0], state)


def _set_module(model: nn.Module, name: str, module: nn.Module) -> None:
    """Puts the module in the place of this name."""
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
