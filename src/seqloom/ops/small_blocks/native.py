"""Products with small blocks in C (blocks.c), one pass over memory, threads over rows.

The gradient of x is the same product with each block transposed. Results do not depend on the number of threads.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import differentiate, paired
from seqloom.ops.native import Argument, Entry
from seqloom.ops.small_blocks import reference

SOURCE = Path(__file__).with_name("blocks.c")
SPAN = 64
"""rows of a task of `GATHER`, which has sums of its own for the gradient of w; the same number as in the C code"""
APPLY = Entry(
    "small_blocks",
    SOURCE,
    "apply_all",
    "threads B R D n x_step",
    Argument("x", "B R D", step="x_step"),
    Argument("w", "n D"),
    Argument("y", "B R D", written=True),
    least="threads n",
    integer=ctypes.c_int64,
)
GATHER = Entry(
    "small_blocks",
    SOURCE,
    "gather_all",
    "threads B R D n x_step dy_step",
    Argument("x", "B R D", step="x_step"),
    Argument("dy", "B R D", step="dy_step"),
    Argument("sums", "spans n D", written=True),
    least="threads n",
    integer=ctypes.c_int64,
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def products(x: Tensor, w: Tensor) -> Tensor:
    """As `reference.products`, in float32 or float64. ValueError where there is no native code."""
    y: Tensor = forward(x, w)
    return y


def _forward(x: Tensor, w: Tensor) -> Tensor:
    return _applied(x, w.transpose(0, 1))


def _backward(x: Tensor, w: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x (B, T, D) and w (N, n, n), the latter from partial sums over `SPAN` rows each."""
    (B, T, D), (N, n, _) = x.shape, w.shape
    sums, threads = x.new_empty(-(-B * T // SPAN), n, D), native.threads(x.numel())
    _check(GATHER(x, dy, sums, threads=threads, spans=len(sums), n=n))
    dw = sums.sum(0, dtype=torch.float64).to(w.dtype).view(n, N, n).transpose(0, 1)
    return _applied(dy, w.permute(2, 0, 1)), dw.contiguous()


def _applied(x: Tensor, blocks: Tensor) -> Tensor:
    """The product of x with blocks whose axes are input, block, output: (n, N, n)."""
    y = x.new_empty(x.shape)
    _check(APPLY(x, blocks.flatten(1), y, threads=native.threads(x.numel()), n=len(blocks)))
    return y


def _check(status: int) -> None:
    if status:
        raise ValueError("small_blocks: the blocks do not fill the channels")


forward = paired(
    "small_blocks",
    _forward,
    _backward,
    shapes=lambda x, w: [x.shape],
    gradient_shapes=lambda x, w, dy: [x.shape, w.shape],
    save=lambda inputs, outputs: inputs,
    differentiable=lambda x, w, dy: differentiate(lambda x, w: (reference.products(x, w),), (x, w), (dy,)),
)
