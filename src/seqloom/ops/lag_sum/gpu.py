"""The lag sum on a GPU, lag by lag, by Triton (gpu_kernels.py, gpu_slopes.py): all positions and channels at once.

They are two operators of torch, which a compiled model calls unchanged. Products of matrices are exact to float32.
"""

import functools

import torch
from torch import Tensor

from seqloom.ops import gpu as device
from seqloom.ops.autograd import GPU
from seqloom.ops.gpu import blocks
from seqloom.ops.lag_sum import adjoint

TIMES, BLOCK = 32, 32
"""positions (lags, in the gradient of the taps) and channels of a program for channels that do not mix"""
PIECE = 256
"""positions whose products such a program sums before it adds them in double precision"""
LONG, WIDE = 64, 32
"""positions and channels that a program multiplies at once: powers of two, at least 16"""
NARROW = 16
"""positions and channels in double precision, which needs twice the registers"""
PROGRAMS = 1024
"""programs that use a whole GPU; where the taps have fewer blocks, the positions are divided into parts"""


@functools.cache
def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is. Cached, since every lag sum asks."""
    return device.unavailable()


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps of any of the four kinds → (B, T, D)."""
    dtype = torch.promote_types(x.dtype, w.dtype)
    wide_dtype = torch.promote_types(dtype, torch.float32)
    taps = w.to(wide_dtype) if w.ndim > 1 else w.to(wide_dtype)[:, None].expand(-1, x.shape[2])
    y: Tensor = forward(x.to(wide_dtype), taps)
    return y.to(dtype)


def tile(dtype: torch.dtype) -> tuple[int, int]:
    """Positions and channels that a program multiplies at once."""
    return (NARROW, NARROW) if dtype == torch.float64 else (LONG, WIDE)


def _forward(x: Tensor, w: Tensor) -> Tensor:
    """y_t = Σ_k x_{t-k} w_k for x (B, T, D) and w (L, D), (L, D, D) or (L, G, D/G, D/G); both float32 or float64."""
    return _sum_lags(x, w, False)


def _backward(x: Tensor, w: Tensor, g: Tensor, needs_dx: bool, needs_dw: bool) -> tuple[Tensor, Tensor]:
    """The gradients of x and w for g (B, T, D); an empty tensor where one is not needed."""
    dx = _sum_lags(g, w if w.ndim == 2 else w.mT, True) if needs_dx else x.new_empty(0)
    return dx, _taps_gradient(x, w, g) if needs_dw else w.new_empty(0)


forward, backward = adjoint.operators("lag_sum_gpu", _forward, _backward, GPU)


def _sum_lags(x: Tensor, w: Tensor, back: bool) -> Tensor:
    """Σ_k x_{t-k} w_k, or, if `back`, Σ_k x_{t+k} w_k."""
    from seqloom.ops.lag_sum import gpu_kernels

    B, T, D = x.shape
    x, y = x.contiguous(), x.new_empty(x.shape)
    sizes = (B * T, T, D, len(w))
    grouped = w[:, None] if w.ndim == 3 else w
    with torch.cuda.device_of(x):
        if w.ndim == 2:
            gpu_kernels.sum_by_channel[blocks(B * T, TIMES), blocks(D, BLOCK)](
                x, w, y, *sizes, *w.stride(), back, TIMES, BLOCK
            )
        else:
            (long, wide), (G, W) = tile(x.dtype), grouped.shape[1:3]
            gpu_kernels.sum_by_group[blocks(B * T, long), G, blocks(W, wide)](
                x, grouped, y, *sizes, W, *grouped.stride(), back, long, wide, num_warps=8
            )
    return y


def _taps_gradient(x: Tensor, w: Tensor, g: Tensor) -> Tensor:
    """The gradient of w: partial sums over parts of the positions, and their sum."""
    from seqloom.ops.lag_sum import gpu_slopes

    (B, T, D), L = x.shape, len(w)
    x, g = x.contiguous(), g.contiguous()
    sizes = (B * T, T, D, L)
    with torch.cuda.device_of(x):
        if w.ndim == 2:
            grid = blocks(L, TIMES), blocks(D, BLOCK)
            parts, per_part = _parts(B * T, PIECE, grid)
            dw = x.new_empty(parts, L, D, dtype=torch.float64)
            gpu_slopes.slope_by_channel[*grid, parts](x, g, dw, *sizes, per_part, PIECE, TIMES, BLOCK)
        else:
            (long, wide), W = tile(x.dtype), w.shape[-1]
            grid = L * blocks(W, wide), D // W * blocks(W, wide)
            parts, per_part = _parts(B * T, long, grid)
            dw = x.new_empty(parts, *w.shape)
            gpu_slopes.slope_by_group[*grid, parts](x, g, dw, *sizes, W, per_part, long, wide)
    return dw.sum(0, dtype=torch.float64).to(w.dtype)


def _parts(count: int, piece: int, grid: tuple[int, int]) -> tuple[int, int]:
    """The number of parts that positions are divided into, and the positions of a part, a multiple of `piece`."""
    pieces = blocks(count, piece)
    per_part = blocks(pieces, max(1, min(pieces, PROGRAMS // (grid[0] * grid[1]))))
    return blocks(pieces, per_part), per_part * piece
