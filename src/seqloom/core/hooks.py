"""Whether a call of a module runs more than its forward.

torch looks for hooks at every call of a module, in two functions that take longer than the matrix product of one token.
`step` looks once, here, and then computes what `forward` computes without calling the module.
"""

from torch import nn
from torch.nn.modules import module as torch_module

_BEFORE, _AFTER = torch_module._global_forward_pre_hooks, torch_module._global_forward_hooks
_BACKWARD_BEFORE, _BACKWARD = torch_module._global_backward_pre_hooks, torch_module._global_backward_hooks


def hooked(module: nn.Module) -> bool:
    """Whether the module has hooks, or hooks of all modules are set, or `module.compile()` was called."""
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
