"""The lag sum without mixed channels in C (lag_sum.c): many channels at once, threads over rows and channels.

The numbers do not depend on how many threads there are.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.lag_sum import adjoint

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
    return native.lacking("native", SOURCE)


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps (L, D) or (L,) → (B, T, D). Raises ValueError where there is no native code."""
    kind = torch.promote_types(x.dtype, w.dtype)
    exact = torch.promote_types(kind, torch.float32)
    each = w.to(exact) if w.ndim == 2 else w.to(exact)[:, None].expand(-1, x.shape[2])
    return (forward if adjoint.watched(x) else _apply)(x.to(exact), each).to(kind)


def parts(x: Tensor) -> int:
    """How many partial sums over rows the gradient of a channel's taps has, whatever the number of threads."""
    return max(1, min(len(x), TASKS // -(-x.shape[2] // LANES)))


def _forward(x: Tensor, w: Tensor) -> Tensor:
    """y_t = Σ_k x_{t-k} w_k for x (B, T, D) and w (L, D), both float32 or both float64."""
    y = x.new_empty(x.shape)
    _call("forward", x, len(w), [x, w], [y])
    return y


def _backward(x: Tensor, w: Tensor, g: Tensor, to_x: bool, to_w: bool) -> tuple[Tensor, Tensor]:
    """dx_t = Σ_k g_{t+k} w_k and dw_k = Σ_t x_{t-k} g_t, each 0 numbers where it is not wanted."""
    L, summed = len(w), parts(x)
    dx, dw = x.new_empty(x.shape if to_x else 0), x.new_empty(summed, *w.shape, dtype=torch.float64)
    _call("backward", x, L, [x, w, g], [dx if to_x else None, dw if to_w else None], summed)
    return dx, dw.sum(0).to(w.dtype) if to_w else w.new_empty(0)


_apply = adjoint.differentiable(_forward, _backward)
forward = torch.library.custom_op("seqloom::lag_sum_forward", _forward, mutates_args=(), device_types="cpu")
backward = torch.library.custom_op("seqloom::lag_sum_backward", _backward, mutates_args=(), device_types="cpu")
adjoint.register(forward, backward)


def _call(name: str, x: Tensor, L: int, given: list[Tensor], out: list[Tensor | None], *parts: int) -> None:
    library, kind = native.need("lag_sum", SOURCE), native.WORD[x.dtype]
    size = getattr(library, f"scratch_{kind}")
    size.restype = ctypes.c_size_t
    B, T, D = x.shape
    threads = native.threads(x.numel() * min(L, 32))
    scratch = torch.empty(threads, size(T, L), dtype=torch.uint8)
    held = [None if each is None else each.contiguous() for each in (*given, *out, scratch)]
    pointers = (ctypes.c_void_p(None if each is None else each.data_ptr()) for each in held)
    getattr(library, f"{name}_{kind}")(threads, *parts, B, T, D, L, *pointers)
