"""The short convolution in C (convolve.c): sum, bias and silu in one pass over memory, threads over rows and tokens.

Results do not depend on the number of threads.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.fused.short_convolution import reference
from seqloom.ops.kernel import Kernel, empty_for_none

SPAN = 128
"""tokens of a task, which has sums of its own for the gradients of taps and bias; the same number as in the C code"""
NUMBERS = "threads silu B T D W"
READS = "x(B T D, x_step) taps(W D) bias?(D) window?(B W-1 D)"
KERNEL = Kernel("short_convolution", Path(__file__).with_name("convolve.c"), least="threads W", integer=ctypes.c_int64)
FORWARD = KERNEL.function("forward", NUMBERS, READS, makes="y(B T D)", room="scratch(D)")
BACKWARD = KERNEL.function(
    "backward",
    NUMBERS,
    f"{READS} dy(B T D, dy_step)",
    makes="dx(B T D) dwindow?window(B W-1 D) sums(B spans W+1 D)",
    room="scratch(threads W+1 D)",
)


def _forward(x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, silu: bool) -> Tensor:
    y: Tensor = FORWARD(x, taps, bias, window, threads=native.threads(x.numel()), silu=silu)
    return y


def _backward(
    x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, silu: bool, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    W, spans = len(taps), -(-x.shape[1] // SPAN)
    dx, dwindow, sums = BACKWARD(x, taps, bias, window, dy, threads=native.threads(x.numel()), silu=silu, spans=spans)
    total = sums.sum((0, 1), dtype=torch.float64).to(x.dtype)
    dbias = None if bias is None else total[W].clone()  # outputs of an operator must not share memory
    return dx, total[:W], *empty_for_none(x, dbias, dwindow)


convolve = KERNEL.operator("short_convolution", _forward, _backward, reference.convolve_by_lag_sum)
"""as `reference.convolve`, in float32 or float64; ValueError where there is no native code"""
