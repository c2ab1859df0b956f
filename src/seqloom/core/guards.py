"""torch's own test, in C++, that tensors are laid out as others that were checked: for checks that each token repeats.

It compares types, dtypes, devices, dispatch keys, sizes, strides and whether there are gradients.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def guards_of(tensors: Sequence[Tensor]) -> Any | None:
    """An object whose `check(*others)` says whether other tensors are laid out as these.

    None where it does not apply (symbolic sizes, or one tensor as two arguments) or where this version of torch lacks
    it.
    """
    try:
        from torch._C._dynamo import guards  # a private name, which another version may lack

        sizes: Any = [list(tensor.shape) for tensor in tensors]
        strides: Any = [list(tensor.stride()) for tensor in tensors]
        tensor_guards = guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        return tensor_guards if tensor_guards.check(*tensors) else None
    except (ImportError, AttributeError, TypeError, RuntimeError, SystemError):
        return None
