"""Derivatives of any order for a lag sum that is given as two kernels, whose gradients are expressed by each other.

    forward(x, w) = y                              y_t = Σ_k x_{t-k} w_k
    backward(x, w, g, needs_dx, needs_dw) = dx, dw    dx_t = Σ_k g_{t+k} w_kᵀ,  dw_k = Σ_t x_{t-k}ᵀ g_t

g is the gradient of y; dx and dw are empty where they are not needed. dx is bilinear in g and w, dw in x and g, so the
derivatives of `backward` are again computed by these two kernels.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from seqloom.ops.autograd import CPU, Gradients, Operator

Forward: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Backward: TypeAlias = Callable[[Tensor, Tensor, Tensor, bool, bool], tuple[Tensor, Tensor]]


def operators(
    name: str, forward: Forward, backward: Backward, devices: Sequence[str] = CPU
) -> tuple[Operator, Operator]:
    """Both kernels as operators of torch with derivatives of any order."""
    forward_operator = Operator(f"{name}_forward", forward, lambda x, w: [x.shape], devices)
    backward_operator = Operator(f"{name}_backward", backward, _shapes, devices)
    forward_operator.differentiable(_save, lambda ctx, dy: _forward_gradients(backward_operator, ctx, dy))
    backward_operator.differentiable(
        _save, lambda ctx, *grads: _backward_gradients(forward_operator, backward_operator, ctx, *grads)
    )
    return forward_operator, backward_operator


def _forward_gradients(backward: Any, ctx: Any, dy: Tensor) -> Gradients:
    """The gradients of `forward`."""
    needs_dx, needs_dw = ctx.needs_input_grad
    dx, dw = backward(*ctx.saved_tensors, dy, needs_dx, needs_dw)
    return dx if needs_dx else None, dw if needs_dw else None


def _backward_gradients(forward: Any, backward: Any, ctx: Any, ddx: Tensor, ddw: Tensor) -> Gradients:
    """The gradients of `backward`, for the gradients of its outputs: ddx of dx, ddw of dw."""
    x, w, g = ctx.saved_tensors
    had_dx, had_dw = ctx.computed
    needs_dx, needs_dw, needs_dg = ctx.needs_input_grad[:3]
    dx = backward(x, ddw, g, True, False)[0] if needs_dx and had_dw else None
    dw = backward(ddx, w, g, False, True)[1] if needs_dw and had_dx else None
    dg = forward(ddx, w) if needs_dg and had_dx else None
    if needs_dg and had_dw:
        dg = forward(x, ddw) if dg is None else dg + forward(x, ddw)
    return dx, dw, dg, None, None


def _save(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    """Saves x and w, and, for `backward`, g and which of dx and dw were computed."""
    ctx.save_for_backward(*inputs[:3])
    ctx.computed = inputs[3:]


def _shapes(x: Tensor, w: Tensor, g: Tensor, needs_dx: bool, needs_dw: bool) -> list[Sequence[int]]:
    return [x.shape if needs_dx else (0,), w.shape if needs_dw else (0,)]
