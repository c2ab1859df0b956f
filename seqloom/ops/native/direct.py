"""Whether C may be called as it is, around torch's operators, which cost more than a token does."""

import torch
from torch import Tensor
from torch._C import _functorch

_PLAIN = (Tensor, torch.nn.Parameter)


def alike(*tensors: Tensor | None) -> bool:
    """Whether all are tensors of one dtype, or None: what a token asks before it asks for more."""
    dtypes = {each.dtype if isinstance(each, Tensor) else None for each in tensors if each is not None}
    return len(dtypes) == 1 and None not in dtypes


def watched(x: Tensor) -> bool:
    """Whether something would notice that an operator is missing.

    A graph is captured, x is no plain tensor, or what torch runs is counted, replaced or mapped.
    """
    return (
        torch.compiler.is_compiling()
        or type(x) not in _PLAIN
        or torch._C._len_torch_dispatch_stack() > 0
        or _functorch.maybe_current_level() is not None
    )
