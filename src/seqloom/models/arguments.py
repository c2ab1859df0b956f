"""Arguments of a model's verbs, checked: TypeError for another type, ValueError for another value, each in one line.

Types, shapes, dtypes and devices are checked by every verb, which reads nothing back from the device. The range of ids
is read where a whole piece comes (`check_range`); for one token, the embedding itself says that an id has no row.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.core.arguments import count, describe_value, short
from seqloom.core.autocast import autocasts
from seqloom.core.available_memory import require_memory
from seqloom.core.graphs import reads_values
from seqloom.core.mixer import Mixer
from seqloom.core.state import ModelState, State

INTEGERS = (torch.int64, torch.int32)
"""the dtypes that torch's embedding takes"""


def check_ids(ids: Any, ndim: int, device: torch.device) -> None:
    """Raises unless ids is a tensor of integers, (B, T) or (B,) as `ndim` says, on the model's device."""
    letters = "(B, T)" if ndim == 2 else "(B,)"
    if not isinstance(ids, Tensor):
        raise TypeError(f"token ids are a tensor {letters} of int64, not {describe_value(ids)}: use torch.tensor(ids)")
    if ids.dtype not in INTEGERS:
        raise ValueError(f"token ids {letters} are of int64, not {describe_value(ids)}: convert with .long()")
    if ids.ndim != ndim:
        raise ValueError(f"token ids are {letters} here, not {tuple(ids.shape)}")
    if ids.device != device:
        raise ValueError(f"token ids are on {ids.device}, the model on {device}: move one of them with .to()")


def check_range(ids: Tensor, vocab: int) -> None:
    """Raises ValueError for ids outside the vocabulary. Values are not read while a graph is traced, nor on meta."""
    if has_values(ids) and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
        raise out_of_range(ids, vocab)


def check_actions(actions: Tensor, count: int) -> None:
    """Raises ValueError for actions that are not one of `count`. Values are not read where `check_range` reads none."""
    if has_values(actions) and actions.numel() and not 0 <= int(actions.min()) <= int(actions.max()) < count:
        raise ValueError(f"actions must lie in 0 … {count - 1}, not {int(actions.min())} … {int(actions.max())}")


def embed_ids(table: nn.Embedding, ids: Tensor) -> Tensor:
    """The table's rows. On a CPU, ValueError for ids that it does not have; other devices report that themselves."""
    if torch.compiler.is_compiling():
        return table(ids)
    try:
        rows: Tensor = table(ids)
    except IndexError:
        raise out_of_range(ids, table.num_embeddings) from None
    return rows


def out_of_range(ids: Tensor, vocab: int) -> ValueError:
    """The error for ids outside the vocabulary."""
    return ValueError(
        f"token ids must lie in 0 … {vocab - 1} (the vocabulary), not {int(ids.min())} … {int(ids.max())}"
    )


def has_values(tensor: Tensor) -> bool:
    """Whether the tensor's values can be read here: it is neither fake nor on meta, and no graph is being traced.

    In a training step they are not read either (`core.graphs.without_reading`).
    """
    return type(tensor) is Tensor and not tensor.is_meta and not torch.compiler.is_compiling() and reads_values()


def check_features(x: Any, dim: int, dtype: torch.dtype, device: torch.device) -> None:
    """Raises unless x is a tensor (B, T, dim) of the parameters' dtype and device; under autocast any float."""
    if not isinstance(x, Tensor):
        raise TypeError(f"features are a tensor (B, T, D) with D = {dim}, not {describe_value(x)}")
    if x.ndim != 3 or x.shape[-1] != dim or not x.is_floating_point() or x.device != device:
        raise ValueError(f"features are floating (B, T, D) with D = {dim} on {device}, not {describe_value(x)}")
    if x.dtype != dtype and not autocasts(device):
        raise ValueError(f"features are {short(dtype)}, as the parameters, not {short(x.dtype)}: convert with .to()")


def check_added(x: Any, ids: Tensor, dim: int, dtype: torch.dtype, device: torch.device) -> None:
    """Raises unless x, which is added to the embeddings of ids (B, T), is as `check_features` asks, and (B, T, dim)."""
    check_features(x, dim, dtype, device)
    if x.shape[:2] != ids.shape:
        raise ValueError(f"what is added to embeddings is (B, T, D) = {(*ids.shape, dim)}, not {tuple(x.shape)}")


def check_layers(layers: Any, ids: Tensor, depth: int) -> None:
    """Raises unless `layers` has a number from 1 to `depth` for each of ids (B, T), on their device."""
    if not isinstance(layers, Tensor):
        raise TypeError(f"layers are a tensor (B, T) of int64, not {describe_value(layers)}: use torch.tensor(layers)")
    if layers.dtype not in INTEGERS or layers.shape != ids.shape or layers.device != ids.device:
        raise ValueError(f"layers are int64 {tuple(ids.shape)} on {ids.device}, not {describe_value(layers)}")
    if has_values(layers) and layers.numel() and not 1 <= int(layers.min()) <= int(layers.max()) <= depth:
        wrong = next(layer for layer in layers.flatten().tolist() if not 1 <= layer <= depth)
        raise ValueError(f"there is no exit after layer {wrong} of a model of {depth} layers")


def check_state(state: Any, batch: int | None, sublayers: Sequence[int]) -> None:
    """Raises unless `state` is of a model with that many `sublayers` in each layer, and of `batch` rows if given.

    Each mixer checks its own part.
    """
    if not isinstance(state, ModelState):
        raise TypeError(f"a model's state is a ModelState, not {describe_value(state)}: make it with start(batch)")
    if not isinstance(state.extra, dict) or not isinstance(state.extra.get("length"), Tensor):
        raise ValueError("this is no state: its extra has no 'length' (B,); make it with start(batch)")
    if state.extra["length"].ndim != 1 or not isinstance(state.layers, tuple):
        raise ValueError("this is no state: its 'length' is not (B,), or it has no layers; make it with start(batch)")
    depth = len(sublayers)
    if len(state.layers) != depth:
        raise ValueError(
            f"the state has {len(state.layers)} layers, the model {depth}: make it with the model's start(batch)"
        )
    for layer, parts in zip(state.layers, sublayers, strict=True):
        if not isinstance(layer, tuple) or len(layer) != parts:
            raise ValueError(f"a layer's state is a tuple of {parts}, one for each sublayer: make it with start(batch)")
    rows = state.extra["length"].shape[0]  # quicker than `len`, which torch implements in Python
    if batch is not None and rows != batch:
        raise ValueError(
            f"the state is of {rows} rows, the input of {batch}; make it with start({batch}) "
            "or choose rows with seqloom.core.state.select"
        )


def check_token(sublayers: Iterable[Mixer], states: Iterable[State], batch: int, reuse: Any) -> None:
    """Raises unless every sublayer can read a token of each of `batch` rows from its state, which `reuse` may change.

    All are checked before the first one reads, and none checks again (`Mixer.read_token`).
    """
    check_flag("reuse", reuse)
    for sublayer, state in zip(sublayers, states, strict=True):
        sublayer.check_token_state(state, batch, reuse)


def check_room(numbers: int, itemsize: int, purpose: str) -> None:
    """Raises ValueError where this many numbers do not fit into the memory that is available."""
    require_memory(purpose, numbers * itemsize, "choose smaller sizes")


def check_start(batch: Any, capacity: Any) -> None:
    """Raises unless both are whole numbers of 0 or more; capacity may be None."""
    count("batch", batch)
    if capacity is not None:
        count("capacity", capacity)


def check_whole(name: str, value: Any) -> None:
    """Raises TypeError unless the value is an int; the caller checks its range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {describe_value(value)}")


def check_flag(name: str, value: Any) -> None:
    """Raises TypeError unless the value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {describe_value(value)}")
