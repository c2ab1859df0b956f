"""Whether torch.func's transforms, or forward-mode differentiation, follow the operations that run here.

`vmap`, `grad`, `vjp`, `jvp`, `jacfwd`, `jacrev`, `linearize` and `torch.autograd.forward_ad` need torch's own
operations. Kernels have gradients alone, which these transforms do not call, and they would drop tangents.
"""

from torch._C import _functorch
from torch.autograd import forward_ad

from seqloom.core.graphs import constant


@constant
def is_transformed() -> bool:
    """Whether a transform of torch.func or a level of forward-mode differentiation is active."""
    return forward_ad._current_level >= 0 or _functorch.maybe_current_level() is not None
