"""The short convolution in C (convolve.c): sum, bias and silu in one pass over memory, threads over rows and tokens.

There are two operators of torch, with silu and without. Results do not depend on the number of threads.
"""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import Operator, differentiate, paired
from seqloom.ops.native import Argument, Entry
from seqloom.ops.short_convolution import reference

SOURCE = Path(__file__).with_name("convolve.c")
SPAN = 128
"""tokens of a task, which has sums of its own for the gradients of taps and bias; the same number as in the C code"""
READS = (
    Argument("x", "B T D", step="x_step"),
    Argument("taps", "W D"),
    Argument("bias", "D", optional=True),
    Argument("window", "B W-1 D", optional=True),
)
FORWARD = Entry(
    "short_convolution",
    SOURCE,
    "forward",
    "threads silu B T D W x_step",
    *READS,
    Argument("y", "B T D", written=True),
    Argument("scratch", "D", written=True),
    least="threads W",
    integer=ctypes.c_int64,
)
BACKWARD = Entry(
    "short_convolution",
    SOURCE,
    "backward",
    "threads silu B T D W x_step dy_step",
    *READS,
    Argument("dy", "B T D", step="dy_step"),
    Argument("dx", "B T D", written=True),
    Argument("dwindow", "B W-1 D", optional=True, written=True),
    Argument("sums", "B spans W+1 D", written=True),
    Argument("scratch", "threads W+1 D", written=True),
    least="threads W",
    integer=ctypes.c_int64,
)
TOKEN = Entry(
    "short_convolution",
    SOURCE,
    "token",
    "threads B D W x_step",
    Argument("x", "B D", step="x_step"),
    Argument("taps", "W D"),
    Argument("bias", "D", optional=True),
    Argument("window", "B W-1 D", written=True),
    Argument("length", "B", torch.long),
    Argument("y", "B D", written=True),
    Argument("new_window", "B W-1 D", written=True, optional=True),
    least="threads W",
    integer=ctypes.c_int64,
)
"""one token, with silu; without `new_window` the window is overwritten"""


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def convolve(x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, silu: bool) -> Tensor:
    """As `reference.convolve`, in float32 or float64. ValueError where there is no native code."""
    y: Tensor = BY_SILU[silu](x, taps, bias, window)
    return y


def _forward(silu: bool, x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None) -> Tensor:
    y, scratch = x.new_empty(x.shape), x.new_empty(x.shape[2])
    FORWARD(x, taps, bias, window, y, scratch, threads=native.threads(x.numel()), silu=silu, W=len(taps))
    return y


def _backward(
    silu: bool, x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (B, T, D), W, threads = x.shape, len(taps), native.threads(x.numel())
    dx, dwindow = x.new_empty(x.shape), None if window is None else x.new_empty(window.shape)
    spans = -(-T // SPAN)
    sums, scratch = x.new_empty(B, spans, W + 1, D), x.new_empty(threads, W + 1, D)
    BACKWARD(x, taps, bias, window, dy, dx, dwindow, sums, scratch, threads=threads, silu=silu, W=W, spans=spans)
    total = sums.sum((0, 1), dtype=torch.float64).to(x.dtype)
    # A copy and empty tensors, since the outputs of an operator must not share memory and none of them is None.
    dbias = x.new_empty(0) if bias is None else total[W].clone()
    return dx, total[:W], dbias, x.new_empty(0) if dwindow is None else dwindow


def _gradient_shapes(
    x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, dy: Tensor
) -> list[tuple[int, ...]]:
    return [(0,) if tensor is None else tuple(tensor.shape) for tensor in (x, taps, bias, window)]


def _operator(silu: bool) -> Operator:
    def forward(x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None) -> Tensor:
        return _forward(silu, x, taps, bias, window)

    def backward(
        x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, dy: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return _backward(silu, x, taps, bias, window, dy)

    def differentiable(*saved: Any) -> list[Tensor | None]:
        def compute(x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None) -> tuple[Tensor]:
            return (reference.convolve_by_lag_sum(x, taps, bias, window, silu),)

        return differentiate(compute, saved[:4], saved[4:])

    return paired(
        "convolve_silu" if silu else "convolve",
        forward,
        backward,
        shapes=lambda x, *rest: [x.shape],
        gradient_shapes=_gradient_shapes,
        save=lambda inputs, outputs: inputs,
        differentiable=differentiable,
    )


BY_SILU = {silu: _operator(silu) for silu in (False, True)}
