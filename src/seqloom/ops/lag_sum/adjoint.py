"""Derivatives of any order for a lag sum that is given as two kernels, whose gradients are expressed by each other.

    forward(x, w) = y                       y_t = Σ_k x_{t-k} w_k
    backward(x, w, g, to_x, to_w) = dx, dw  dx_t = Σ_k g_{t+k} w_kᵀ,  dw_k = Σ_t x_{t-k}ᵀ g_t; empty if not wanted

dx is bilinear in g and w, dw in x and g, so the derivatives of `backward` are again computed by these two kernels.
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
    sums = Operator(f"{name}_forward", forward, lambda x, w: [x.shape], devices)
    received = Operator(f"{name}_backward", backward, _shapes, devices)
    sums.differentiable(_save, lambda ctx, dy: _first(received, ctx, dy))
    received.differentiable(_save, lambda ctx, *of: _second(sums, received, ctx, *of))
    return sums, received


def _first(backward: Any, ctx: Any, dy: Tensor) -> Gradients:
    to_x, to_w = ctx.needs_input_grad
    dx, dw = backward(*ctx.saved_tensors, dy, to_x, to_w)
    return dx if to_x else None, dw if to_w else None


def _second(forward: Any, backward: Any, ctx: Any, ddx: Tensor, ddw: Tensor) -> Gradients:
    (x, w, g), (to_x, to_w) = ctx.saved_tensors, ctx.wanted
    of_x, of_w, of_g = ctx.needs_input_grad[:3]
    dx = backward(x, ddw, g, True, False)[0] if of_x and to_w else None
    dw = backward(ddx, w, g, False, True)[1] if of_w and to_x else None
    dg = forward(ddx, w) if of_g and to_x else None
    if of_g and to_w:
        dg = forward(x, ddw) if dg is None else dg + forward(x, ddw)
    return dx, dw, dg, None, None


def _save(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.wanted = inputs[3:]


def _shapes(x: Tensor, w: Tensor, g: Tensor, to_x: bool, to_w: bool) -> list[Sequence[int]]:
    return [x.shape if to_x else (0,), w.shape if to_w else (0,)]
