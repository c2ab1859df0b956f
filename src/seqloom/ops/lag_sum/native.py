"""The lag sum for channels that do not mix, in C (lag_sum.c): many channels at once, threads over rows and channels.

Results do not depend on the number of threads.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.lag_sum import adjoint
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("lag_sum.c")
"""the C source of both operators"""
TASKS = 8
"""the fewest tasks of the gradient of the taps, divided by channels and then by rows; a task has one thread"""
LANES = 16
"""the most channels of such a task"""
X, W = Argument("x", "B T D"), Argument("w", "L D")
SCRATCH = Argument("scratch", "threads room", torch.uint8, written=True)
FORWARD = Entry(
    "lag_sum",
    SOURCE,
    "forward",
    "threads B T D L",
    X,
    W,
    Argument("y", "B T D", written=True),
    SCRATCH,
    least="threads",
)
BACKWARD = Entry(
    "lag_sum",
    SOURCE,
    "backward",
    "threads parts B T D L",
    X,
    W,
    Argument("g", "B T D"),
    Argument("dx", "B T D", optional=True, written=True),
    Argument("dw", "parts L D", torch.float64, optional=True, written=True),
    SCRATCH,
    least="threads parts",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps (L, D) or (L,) → (B, T, D). Raises ValueError where there is no native code."""
    dtype = torch.promote_types(x.dtype, w.dtype)
    wide_dtype = torch.promote_types(dtype, torch.float32)
    taps = w.to(wide_dtype) if w.ndim == 2 else w.to(wide_dtype)[:, None].expand(-1, x.shape[2])
    y: Tensor = forward(x.to(wide_dtype), taps)
    return y.to(dtype)


def parts(x: Tensor) -> int:
    """The number of partial sums over rows in the gradient of a channel's taps, for any number of threads."""
    return max(1, min(len(x), TASKS // -(-x.shape[2] // LANES)))


def _forward(x: Tensor, w: Tensor) -> Tensor:
    """y_t = Σ_k x_{t-k} w_k for x (B, T, D) and w (L, D), both float32 or both float64."""
    y = x.new_empty(x.shape)
    scratch = _scratch(x, w)
    FORWARD(x, w, y, scratch, threads=len(scratch), L=len(w))
    return y


def _backward(x: Tensor, w: Tensor, g: Tensor, needs_dx: bool, needs_dw: bool) -> tuple[Tensor, Tensor]:
    """dx_t = Σ_k g_{t+k} w_k and dw_k = Σ_t x_{t-k} g_t; an empty tensor for a gradient that is not needed."""
    part_count = parts(x)
    scratch = _scratch(x, w)
    dx = x.new_empty(x.shape if needs_dx else 0)
    dw_parts = x.new_empty(part_count, *w.shape, dtype=torch.float64)
    tensors = (x, w, g, dx if needs_dx else None, dw_parts if needs_dw else None)
    BACKWARD(*tensors, scratch, threads=len(scratch), parts=part_count, L=len(w))
    return dx, dw_parts.sum(0).to(w.dtype) if needs_dw else w.new_empty(0)


forward, backward = adjoint.operators("lag_sum", _forward, _backward)


def _scratch(x: Tensor, w: Tensor) -> Tensor:
    """Scratch memory (threads, bytes)."""
    (_, T, _), L = x.shape, len(w)
    room = native.size("lag_sum", SOURCE, f"scratch_{native.WORD[x.dtype]}", T, L)
    return torch.empty(native.threads(x.numel() * min(L, 32)), room, dtype=torch.uint8)
