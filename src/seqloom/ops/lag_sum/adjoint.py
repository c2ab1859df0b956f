"""Derivatives of any order for a lag sum that comes as two kernels: each is the other's gradient.

    forward(x, w) = y                       y_t = Σ_k x_{t-k} w_k
    backward(x, w, g, to_x, to_w) = dx, dw  dx_t = Σ_k g_{t+k} w_kᵀ,  dw_k = Σ_t x_{t-k}ᵀ g_t; 0 numbers if not wanted

dx is linear in g and w, dw in x and g; so what is derived from `backward` is again these two. As operators of torch a
compiled model holds them as they are; but each call of one takes a third of a millisecond, so outside of graphs, and
where nobody watches what torch runs, they are called without.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Forward: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Backward: TypeAlias = Callable[[Tensor, Tensor, Tensor, bool, bool], tuple[Tensor, Tensor]]
Slopes: TypeAlias = tuple[Tensor | None, ...]


def differentiable(forward: Forward, backward: Backward) -> Forward:
    """The kernel `forward` with derivatives of any order, for tensors at hand."""

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            _keep(ctx, (x, w), None)
            return forward(x, w)

        @staticmethod
        def backward(ctx: Any, dy: Tensor) -> Slopes:
            return _first(Received.apply if torch.is_grad_enabled() else backward, ctx, dy)

    class Received(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
            _keep(ctx, given, None)
            return backward(*given)

        @staticmethod
        def backward(ctx: Any, ddx: Tensor, ddw: Tensor) -> Slopes:
            return _second(Sum.apply, Received.apply, ctx, ddx, ddw)

    apply: Forward = Sum.apply
    return apply


def register(forward: Any, backward: Any) -> None:
    """Gives two operators of torch (`torch.library.custom_op`) the shapes of what they make, and derivatives."""
    forward.register_fake(_shape)
    backward.register_fake(_shapes)
    forward.register_autograd(lambda ctx, dy: _first(backward, ctx, dy), setup_context=_keep)
    backward.register_autograd(lambda ctx, *of: _second(forward, backward, ctx, *of), setup_context=_keep)


def _first(backward: Any, ctx: Any, dy: Tensor) -> Slopes:
    to_x, to_w = ctx.needs_input_grad
    dx, dw = backward(*ctx.saved_tensors, dy, to_x, to_w)
    return dx if to_x else None, dw if to_w else None


def _second(forward: Any, backward: Any, ctx: Any, ddx: Tensor, ddw: Tensor) -> Slopes:
    (x, w, g), (to_x, to_w) = ctx.saved_tensors, ctx.wanted
    of_x, of_w, of_g = ctx.needs_input_grad[:3]
    dx = backward(x, ddw, g, True, False)[0] if of_x and to_w else None
    dw = backward(ddx, w, g, False, True)[1] if of_w and to_x else None
    dg = forward(ddx, w) if of_g and to_x else None
    if of_g and to_w:
        dg = forward(x, ddw) if dg is None else dg + forward(x, ddw)
    return dx, dw, dg, None, None


def _keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.wanted = inputs[3:]


def _shape(x: Tensor, w: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _shapes(x: Tensor, w: Tensor, g: Tensor, to_x: bool, to_w: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape if to_x else 0), w.new_empty(w.shape if to_w else torch.Size([0]))
