"""The lag sum without mixed channels in C (lag_sum.c): many channels at once, threads over rows and channels.

Two operators of torch, so that a compiled model holds them as they are. Each is the other's gradient, so gradients of
any order are these two again. The numbers do not depend on how many threads there are.
"""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.ops import native

SOURCE = Path(__file__).with_name("lag_sum.c")
"""the C of both operators"""
TASKS = 8
"""sums that the gradient of the taps is cut into at least, over channels and then over rows: each has one thread"""
LANES = 16
"""channels of such a sum, at most"""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # as torch leaves it
def available() -> bool:
    """Whether there is native code on this machine; the first to ask has it compiled."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    reason = native.why(SOURCE)
    return {"native": reason} if reason else {}


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps (L, D) or (L,) → (B, T, D). Raises ValueError where there is no native code."""
    kind = torch.promote_types(x.dtype, w.dtype)
    exact = torch.promote_types(kind, torch.float32)
    each = w.to(exact) if w.ndim == 2 else w.to(exact)[:, None].expand(-1, x.shape[2])
    return forward(x.to(exact), each).to(kind)


@torch.library.custom_op("seqloom::lag_sum_forward", mutates_args=(), device_types="cpu")
def forward(x: Tensor, w: Tensor) -> Tensor:
    """y_t = Σ_k x_{t-k} w_k for x (B, T, D) and w (L, D), both float32 or both float64."""
    y = x.new_empty(x.shape)
    _call("forward", x, len(w), [x, w], [y])
    return y


@torch.library.custom_op("seqloom::lag_sum_backward", mutates_args=(), device_types="cpu")
def backward(x: Tensor, w: Tensor, g: Tensor, to_x: bool, to_w: bool) -> tuple[Tensor, Tensor]:
    """dx_t = Σ_k g_{t+k} w_k and dw_k = Σ_t x_{t-k} g_t, each 0 numbers where it is not wanted."""
    L, parts = len(w), max(1, min(len(x), TASKS // -(-x.shape[2] // LANES)))
    dx, dw = x.new_empty(x.shape if to_x else 0), x.new_empty(parts, *w.shape, dtype=torch.float64)
    _call("backward", x, L, [x, w, g], [dx if to_x else None, dw if to_w else None], parts)
    return dx, dw.sum(0).to(w.dtype) if to_w else w.new_empty(0)


@forward.register_fake
def _forward_shape(x: Tensor, w: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@backward.register_fake
def _backward_shapes(x: Tensor, w: Tensor, g: Tensor, to_x: bool, to_w: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape if to_x else 0), w.new_empty(w.shape if to_w else 0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.wanted = inputs[3:]


def _gradients(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    to_x, to_w = ctx.needs_input_grad
    dx, dw = backward(*ctx.saved_tensors, dy, to_x, to_w)
    return dx if to_x else None, dw if to_w else None


def _second_gradients(ctx: Any, ddx: Tensor, ddw: Tensor) -> tuple[Tensor | None, ...]:
    """Of what `backward` gave: dx is linear in g and w, dw in x and g."""
    (x, w, g), (to_x, to_w) = ctx.saved_tensors, ctx.wanted
    of_x, of_w, of_g = ctx.needs_input_grad[:3]
    dx = backward(x, ddw, g, True, False)[0] if of_x and to_w else None
    dw = backward(ddx, w, g, False, True)[1] if of_w and to_x else None
    dg = forward(ddx, w) if of_g and to_x else None
    if of_g and to_w:
        dg = forward(x, ddw) if dg is None else dg + forward(x, ddw)
    return dx, dw, dg, None, None


forward.register_autograd(_gradients, setup_context=_keep)
backward.register_autograd(_second_gradients, setup_context=_keep)


def _call(name: str, x: Tensor, L: int, given: list[Tensor], out: list[Tensor | None], *parts: int) -> None:
    library = native.library(SOURCE)
    if library is None:
        raise ValueError(f"the backend native of lag_sum is not available here: {native.why(SOURCE)}")
    kind = {torch.float32: "float", torch.float64: "double"}[x.dtype]
    size = getattr(library, f"scratch_{kind}")
    size.restype = ctypes.c_size_t
    B, T, D = x.shape
    threads = native.threads(x.numel() * min(L, 32))
    scratch = torch.empty(threads, size(T, L), dtype=torch.uint8)
    held = [None if each is None else each.contiguous() for each in (*given, *out, scratch)]
    pointers = (ctypes.c_void_p(None if each is None else each.data_ptr()) for each in held)
    getattr(library, f"{name}_{kind}")(threads, *parts, B, T, D, L, *pointers)
