"""Whether C may be called directly, without torch's operators, whose overhead exceeds the time of a token."""

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import forward_ad

_PLAIN = (Tensor, torch.nn.Parameter)


def alike(first: Tensor, *rest: Tensor, optional: tuple[Tensor | None, ...] = ()) -> bool:
    """Whether all arguments are tensors of one dtype; those in `optional` may be None. It is fast."""
    if not isinstance(first, Tensor):
        return False
    dtype = first.dtype
    for other in rest:
        if not isinstance(other, Tensor) or other.dtype != dtype:
            return False
    for tensor in optional:  # a loop, because a generator is slower
        if tensor is not None and not (isinstance(tensor, Tensor) and tensor.dtype == dtype):
            return False
    return True


def is_observed(x: Tensor) -> bool:
    """Whether something observes the operators that run, so that C must not be called directly.

    It is so where a graph is captured, x is not a plain tensor, or a mode or transform handles torch's operations.
    """
    return (
        torch.compiler.is_compiling()
        or type(x) not in _PLAIN
        or torch._C._len_torch_dispatch_stack() > 0
        or _functorch.maybe_current_level() is not None
    )


def callable_directly(x: Tensor, *rest: Tensor) -> bool:
    """Whether C may be called directly with these tensors: of one dtype, not observed, and without gradients."""
    if is_observed(x) or forward_ad._current_level >= 0 or not alike(x, *rest):
        return False
    if torch.is_grad_enabled():
        return not (x.requires_grad or any(tensor.requires_grad for tensor in rest))
    return True
