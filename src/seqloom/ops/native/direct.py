"""Whether C may be called as it is, around torch's operators, which cost more than a token does."""

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import forward_ad

_PLAIN = (Tensor, torch.nn.Parameter)


def alike(first: Tensor, *rest: Tensor, optional: tuple[Tensor | None, ...] = ()) -> bool:
    """Whether all are tensors of one dtype, or None where that may be: what a token asks before it asks for more."""
    if not isinstance(first, Tensor):
        return False
    dtype = first.dtype
    for other in rest:
        if not isinstance(other, Tensor) or other.dtype != dtype:
            return False
    for maybe in optional:  # a generator takes longer
        if maybe is not None and not (isinstance(maybe, Tensor) and maybe.dtype == dtype):
            return False
    return True


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


def quiet(x: Tensor, *rest: Tensor) -> bool:
    """Whether C alone may compute what follows from these tensors: of one dtype, unwatched, without derivatives."""
    if watched(x) or forward_ad._current_level >= 0 or not alike(x, *rest):
        return False
    if torch.is_grad_enabled():
        return not (x.requires_grad or any(tensor.requires_grad for tensor in rest))
    return True
