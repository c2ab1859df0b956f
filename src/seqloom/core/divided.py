"""Tensors that are divided among processes (torch's DTensor), next to those that each process has whole.

Nothing here imports torch's DTensor, which takes half as long as torch itself, unless there is one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor


def is_divided(tensor: Tensor) -> bool:
    """Whether a tensor is divided among processes."""
    return hasattr(tensor, "device_mesh")


def any_divided(tensors: Iterable[Tensor]) -> bool:
    """Whether the first of some tensors is divided among processes: then all of a model are."""
    first = next(iter(tensors), None)
    return first is not None and is_divided(first)


def whole(tensor: Any) -> Tensor:
    """A tensor, gathered where it is divided: a collective, which every rank calls for the same tensors in order."""
    result: Tensor = tensor.full_tensor() if is_divided(tensor) else tensor
    return result


def part(tensor: Any) -> Tensor:
    """What this rank has of a tensor."""
    result: Tensor = tensor.to_local() if is_divided(tensor) else tensor
    return result


def like(tensor: Tensor, parameter: Any) -> Tensor:
    """A whole tensor, the same in each rank, divided as a parameter is."""
    if not is_divided(parameter):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    moved = tensor.to(parameter.device)
    return distribute_tensor(moved, parameter.device_mesh, parameter.placements, src_data_rank=None)


def like_each(named: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors, each divided as the parameter of its name; those without one stay."""
    return {name: like(tensor, parameters[name]) if name in parameters else tensor for name, tensor in named.items()}
