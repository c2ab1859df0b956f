"""Products with small blocks in C (blocks.c), one pass over memory, threads over rows.

The gradient of x is the same product with each block transposed. Results do not depend on the number of threads.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.fused.small_blocks import reference
from seqloom.ops.kernel import Kernel

SPAN = 64
"""rows of a task of `GATHER`, which has sums of its own for the gradient of w; the same number as in the C code"""
MISFIT = "the blocks do not fill the channels"
KERNEL = Kernel("small_blocks", Path(__file__).with_name("blocks.c"), least="threads n", integer=ctypes.c_int64)
APPLY = KERNEL.function("apply_all", "threads B R D n", "x(B R D, x_step) w(n D)", makes="y(B R D)", fails=MISFIT)
GATHER = KERNEL.function(
    "gather_all", "threads B R D n", "x(B R D, x_step) dy(B R D, dy_step)", makes="sums(spans n D)", fails=MISFIT
)


def _forward(x: Tensor, w: Tensor) -> Tensor:
    return _apply(x, w.transpose(0, 1))


def _backward(x: Tensor, w: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x (B, T, D) and w (N, n, n), the latter from partial sums over `SPAN` rows each."""
    (B, T, _), (N, n, _) = x.shape, w.shape
    sums = GATHER(x, dy, threads=native.threads(x.numel()), spans=-(-B * T // SPAN), n=n)
    dw = sums.sum(0, dtype=torch.float64).to(w.dtype).view(n, N, n).transpose(0, 1)
    return _apply(dy, w.permute(2, 0, 1)), dw.contiguous()


def _apply(x: Tensor, blocks: Tensor) -> Tensor:
    """The product of x with blocks whose axes are input, block, output: (n, N, n)."""
    y: Tensor = APPLY(x, blocks.flatten(1), threads=native.threads(x.numel()), n=len(blocks))
    return y


products = KERNEL.operator("small_blocks", _forward, _backward, reference.products)
"""as `reference.products`, in float32 or float64; ValueError where there is no native code"""
