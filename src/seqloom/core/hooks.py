"""Whether calling a module runs more than its forward.

torch looks for hooks at every call of a module, in two functions that take longer than a product of one token.
A token's layers look once, here, and then compute what their forward computes.
"""

from torch import nn
from torch.nn.modules import module as of_torch

_BEFORE, _AFTER = of_torch._global_forward_pre_hooks, of_torch._global_forward_hooks
_BACKWARD_BEFORE, _BACKWARD = of_torch._global_backward_pre_hooks, of_torch._global_backward_hooks


def hooked(module: nn.Module) -> bool:
    """Whether the module has hooks, all modules have them, or the module was compiled by itself."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or module._compiled_call_impl is not None
        or _BEFORE
        or _AFTER
        or _BACKWARD_BEFORE
        or _BACKWARD
    )
