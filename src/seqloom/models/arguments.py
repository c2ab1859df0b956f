"""Arguments of a model's verbs, checked: TypeError for another type, ValueError for another value, each in one line.

Types, shapes, dtypes and devices are checked by every verb, which reads nothing back from the device. The range of ids
is read where a whole piece comes (`check_range`); for one token, the embedding itself says that an id has no row.
"""

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.core.arguments import autocasts, count, described, short
from seqloom.core.available_memory import require_memory
from seqloom.core.state import check

INTEGERS = (torch.int64, torch.int32)
"""the dtypes that torch's embedding takes"""


def check_ids(ids: Any, ndim: int, device: torch.device) -> None:
    """Raises unless ids is a tensor of integers, (B, T) or (B,) as `ndim` says, on the model's device."""
    letters = "(B, T)" if ndim == 2 else "(B,)"
    if not isinstance(ids, Tensor):
        raise TypeError(f"token ids are a tensor {letters} of int64, not {described(ids)}: use torch.tensor(ids)")
    if ids.dtype not in INTEGERS:
        raise ValueError(f"token ids {letters} are of int64, not {described(ids)}: convert with .long()")
    if ids.ndim != ndim:
        raise ValueError(f"token ids are {letters} here, not {tuple(ids.shape)}")
    if ids.device != device:
        raise ValueError(f"token ids are on {ids.device}, the model on {device}: move one of them with .to()")


def check_range(ids: Tensor, vocab: int) -> None:
    """Raises ValueError for ids outside the vocabulary. Values are not read while a graph is traced, nor on meta."""
    if has_values(ids) and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
        raise out_of_range(ids, vocab)


def embedded(table: nn.Embedding, ids: Tensor) -> Tensor:
    """The table's rows. On a CPU, ValueError for ids that it does not have; other devices report that themselves."""
    if torch.compiler.is_compiling():
        rows: Tensor = table(ids)
        return rows
    try:
        rows = table(ids)
    except IndexError:
        raise out_of_range(ids, table.num_embeddings) from None
    return rows


def out_of_range(ids: Tensor, vocab: int) -> ValueError:
    """The error for ids outside the vocabulary."""
    return ValueError(
        f"token ids must lie in 0 … {vocab - 1} (the vocabulary), not {int(ids.min())} … {int(ids.max())}"
    )


def has_values(tensor: Tensor) -> bool:
    """Whether the tensor's values can be read here: it is neither fake nor on meta, and no graph is being traced."""
    return type(tensor) is Tensor and not tensor.is_meta and not torch.compiler.is_compiling()


def check_features(x: Any, dim: int, dtype: torch.dtype, device: torch.device) -> None:
    """Raises unless x is a tensor (B, T, dim) of the parameters' dtype and device; under autocast any float."""
    if not isinstance(x, Tensor):
        raise TypeError(f"features are a tensor (B, T, D) with D = {dim}, not {described(x)}")
    if x.ndim != 3 or x.shape[-1] != dim or not x.is_floating_point() or x.device != device:
        raise ValueError(f"features are floating (B, T, D) with D = {dim} on {device}, not {described(x)}")
    if x.dtype != dtype and not autocasts(device):
        raise ValueError(f"features are {short(dtype)}, as the parameters, not {short(x.dtype)}: convert with .to()")


def check_state(state: Any, batch: int | None, depth: int) -> None:
    """Raises unless `state` is of a model of `depth` layers, and of `batch` rows where given.

    Each mixer checks its own part.
    """
    if not isinstance(state, dict):
        raise TypeError(f"a state is a dict of tensors, not {described(state)}: make it with start(batch)")
    wrong = next((name for name, tensor in state.items() if not isinstance(tensor, Tensor)), None)
    if wrong is not None:
        raise TypeError(f"state entry {wrong!r} is {described(state[wrong])}, not a tensor: make it with start(batch)")
    if "seen" not in state or state["seen"].ndim != 1:
        raise ValueError("this is no state: it has no 'seen' (B,); begin with start(batch)")
    missing = next((layer for layer in range(depth) if f"layers.{layer}.seen" not in state), None)
    if missing is not None:
        raise ValueError(f"the state has no layer {missing}, the model has {depth}: make it with its start(batch)")
    if f"layers.{depth}.seen" in state:
        raise ValueError(f"the state has more layers than the model, {depth}: make it with its start(batch)")
    if batch is not None:
        check(state, batch)


def check_room(numbers: int, itemsize: int, what: str) -> None:
    """Raises ValueError where so many numbers do not fit into the memory that is available."""
    require_memory(what, numbers * itemsize, "choose smaller sizes")


def check_start(batch: Any, capacity: Any) -> None:
    """Raises unless both are whole numbers of 0 or more; capacity may be None."""
    count("batch", batch)
    if capacity is not None:
        count("capacity", capacity)


def check_whole(name: str, value: Any) -> None:
    """Raises TypeError unless the value is an int; its range is the caller's."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {described(value)}")


def check_flag(name: str, value: Any) -> None:
    """Raises TypeError unless the value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {described(value)}")
