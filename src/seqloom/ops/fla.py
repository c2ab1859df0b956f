"""Whether flash-linear-attention's Triton kernels can run, and how they are called.

It is an extra (`pip install 'seqloom[fla]'`). Its kernels multiply in the dtype of q: bfloat16 or float16, as under
autocast; float32 inputs are multiplied in TF32, and several kernels refuse them. They have a first derivative only.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, final

import torch
from torch import Tensor

from seqloom.core.graphs import capturing, constant
from seqloom.ops import gpu
from seqloom.ops.autograd import GPU, refuse_tangents
from seqloom.ops.native import is_observed

NARROW = (torch.float16,) if gpu.INTERPRETED else (torch.bfloat16, torch.float16)
"""the dtypes that all its kernels support; Triton's interpreter gives wrong numbers in bfloat16"""
WIDEST = 256
"""the most channels of a key that all its kernels support"""


@constant
def why() -> str:
    """The reason why its kernels cannot run here, in a few words; "" if they can."""
    return _why()


@cache
def _why() -> str:
    if find_spec("fla") is None:
        return "flash-linear-attention is not installed: pip install 'seqloom[fla]'"
    return gpu.why()


def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    reason = why()
    return {"fla": reason} if reason else {}


def runs_on(x: Tensor) -> bool:
    """Whether its kernels support the dtype and the device of x: on a GPU, or under Triton's interpreter."""
    return x.dtype in NARROW and gpu.supports(x.device) and not why()


def supports(q: Tensor) -> bool:
    """Whether its kernels can run on queries (…, K). They need an even K."""
    K = q.shape[-1]
    return K <= WIDEST and K % 2 == 0 and runs_on(q)


def best(q: Tensor) -> bool:
    """Whether its kernels are the default for these queries.

    Not in a graph of torch's compiler: its gradients would compute the outputs again, and an exported one could not run
    elsewhere. A CUDA graph records what runs without it, so there they are.
    """
    return q.device.type == "cuda" and supports(q) and not capturing()


def heads_last(x: Tensor) -> Tensor:
    """(B, H, T, …) as (B, T, H, …), the layout of its kernels, or back."""
    return x.transpose(1, 2)


@final
class Kernel:
    """A function of fla: `run(q, k, v, *rest)` returns y and the state after the last token, which is float32.

    q and k are (B, T, H, K), v and y (B, T, H, V), the state (B, H, K, V); the rest are tensors or None. It is called
    directly, with fla's own gradients. Where something observes torch's operations, as in a captured graph, it is the
    operator `seqloom::name`, and its gradients run fla's forward again: what fla stores for them is not a public part
    of it.
    """

    def __init__(self, name: str, run: Callable[..., tuple[Tensor, Tensor]]) -> None:
        self.run = run
        self.operator = torch.library.custom_op(f"seqloom::{name}", run, mutates_args=(), device_types=GPU)
        """the operator that graphs contain"""
        self.backward = torch.library.custom_op(
            f"seqloom::{name}_backward", self._backward, mutates_args=(), device_types=GPU
        )
        self.operator.register_fake(_outputs)
        self.backward.register_fake(lambda inputs, dy, dstate: [torch.empty_like(x) for x in inputs if x is not None])
        self.operator.register_autograd(self._gradients, setup_context=_save)
        refuse_tangents(self.operator)
        refuse_tangents(self.backward)

    def __call__(self, q: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor]:
        """y and the new state. A second derivative raises RuntimeError."""
        if is_observed(q):
            outputs: tuple[Tensor, Tensor] = self.operator(q, *rest)
            return outputs
        return once(*self.run(q, *rest))

    def _backward(self, inputs: Sequence[Tensor | None], dy: Tensor, dstate: Tensor) -> list[Tensor]:
        """The gradients of those inputs that are not None."""
        leaves = [None if x is None else x.detach().requires_grad_() for x in inputs]
        with torch.enable_grad():
            outputs = self.run(*leaves)
        variables = [leaf for leaf in leaves if leaf is not None]
        return list(torch.autograd.grad(outputs, variables, (dy, dstate), allow_unused=True, materialize_grads=True))

    def _gradients(self, ctx: Any, dy: Tensor, dstate: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        grads = iter(self.backward(inputs, dy, dstate))
        return tuple(None if x is None else next(grads) for x in inputs)


def _outputs(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs of the right shapes and dtypes, for a graph."""
    B, _, H, V = v.shape
    return torch.empty_like(v), v.new_empty(B, H, q.shape[3], V, dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Tensor | None, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def once(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs; a second derivative through them raises RuntimeError, since fla would leave out its part."""
    return refuse_second_derivatives(y, "chunked"), refuse_second_derivatives(state, "chunked")


def refuse_second_derivatives(output: Tensor, able: str) -> Tensor:
    """The output of a kernel, whose second derivative raises RuntimeError; `able` is the backend that has one."""

    def refuse(grad: Tensor) -> None:
        if torch.is_grad_enabled():
            raise RuntimeError(f"fla's kernels have no second derivative: force backend {able!r} to get one")

    if output.requires_grad:
        output.register_hook(refuse)
    return output
