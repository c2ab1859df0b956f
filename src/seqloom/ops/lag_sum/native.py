"""The lag sum for channels that do not mix, in C (lag_sum.c): many channels at once, threads over rows and channels.

Results do not depend on the number of threads.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.kernel import Kernel, empty_for_none
from seqloom.ops.lag_sum import adjoint

TASKS = 8
"""the fewest tasks of the gradient of the taps, divided by channels and then by rows; a task has one thread"""
LANES = 16
"""the most channels of such a task"""
ROOM = "scratch(threads room, uint8)"
KERNEL = Kernel("lag_sum", Path(__file__).with_name("lag_sum.c"))
FORWARD = KERNEL.function("forward", "threads B T D L", "x(B T D) w(L D)", makes="y(B T D)", room=ROOM)
BACKWARD = KERNEL.function(
    "backward",
    "threads parts B T D L",
    "x(B T D) w(L D) g(B T D)",
    makes="dx?needs_dx(B T D) dw?needs_dw(parts L D, float64)",
    room=ROOM,
)


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
    y: Tensor = FORWARD(x, w, **_sizes(x, w))
    return y


def _backward(x: Tensor, w: Tensor, g: Tensor, needs_dx: bool, needs_dw: bool) -> tuple[Tensor, Tensor]:
    """dx_t = Σ_k g_{t+k} w_k and dw_k = Σ_t x_{t-k} g_t; an empty tensor for a gradient that is not needed."""
    dx, dw = BACKWARD(x, w, g, parts=parts(x), needs_dx=needs_dx, needs_dw=needs_dw, **_sizes(x, w))
    dx, dw = empty_for_none(x, dx, None if dw is None else dw.sum(0).to(w.dtype))
    return dx, dw


def _sizes(x: Tensor, w: Tensor) -> dict[str, int]:
    """The sizes that do not follow from the tensors."""
    T, L = x.shape[1], len(w)
    return {"threads": native.threads(x.numel() * min(L, 32)), "room": KERNEL.size("scratch", x.dtype, T, L)}


forward, backward = adjoint.operators("lag_sum", _forward, _backward)
