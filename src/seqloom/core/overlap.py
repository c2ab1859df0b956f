"""Whether the tensors of a state share memory, so that a write into one place would change another.

An expanded tensor, such as one row shown as three, has several places at one address. What `step` writes for one row
would then be read as that of another.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise

import torch
from torch import Tensor

from seqloom.core.state import is_known


def require_apart(state: Mapping[str, Tensor]) -> None:
    """Raises ValueError where two places of the state's tensors may lie at one address."""
    if not torch.compiler.is_compiling() and _lie_apart(state.values()):
        return
    for name, tensor in state.items():
        if overlaps_itself(tensor):
            raise ValueError(
                f"state entry {name!r} holds several places at one address, as an expanded tensor does, and cannot be "
                "overwritten: give its .clone(), or step with reuse=False"
            )
    if torch.compiler.is_compiling():
        return  # graphs have no addresses
    for (name, tensor), (other, second) in combinations(state.items(), 2):
        if share_memory(tensor, second):
            raise ValueError(
                f"state entries {name!r} and {other!r} share memory, and cannot be overwritten: "
                "give a .clone() of one, or step with reuse=False"
            )


def _lie_apart(tensors: Iterable[Tensor]) -> bool:
    """Whether tensors without gaps have addresses of their own; False also for others, which take longer to compare."""
    ranges = []
    for tensor in tensors:
        if type(tensor) is not Tensor or tensor.is_meta or not tensor.is_contiguous():
            return False
        first = tensor.data_ptr()
        ranges.append((first, first + tensor.nbytes))
    ranges.sort()
    return all(end <= begin for (_, end), (begin, _) in pairwise(ranges))


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether several places of one tensor may lie at one address; a tensor of which all are apart may count too.

    Sorted by stride, each axis has to step over all that the axes before it reach. Slices, transposes and gaps do.
    """
    if tensor.is_contiguous():
        return False
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return tensor.numel() > 0
            reach += (size - 1) * stride
    return False


def share_memory(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors have an address in common; neither overlaps itself (`overlaps_itself`)."""
    if first.numel() == 0 or second.numel() == 0 or not _of_one_storage(first, second):
        return False
    if first.element_size() != second.element_size():
        return True
    (start, end), (begin, stop) = _range(first), _range(second)
    if end <= begin or stop <= start:
        return False
    marks = torch.zeros(max(end, stop), dtype=torch.bool)  # interleaved, as parts of one tensor are
    marks.as_strided(first.shape, first.stride(), first.storage_offset()).fill_(True)
    return bool(marks.as_strided(second.shape, second.stride(), second.storage_offset()).any())


def _of_one_storage(first: Tensor, second: Tensor) -> bool:
    if not (is_known(first) and is_known(second)):
        return False  # without values there are no addresses
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _range(tensor: Tensor) -> tuple[int, int]:
    """The first element of the storage that the tensor holds, and the one after its last."""
    start = int(tensor.storage_offset())
    reaches = ((int(size) - 1) * int(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + 1 + sum(reaches)
