"""The lag sum of channels that do not mix on a GPU, by Toeplitz tiles (gpu_tiles.py): T L products, but by matrices.

A Fourier transform needs T log T products of complex numbers, and several passes over memory, which take longer up to
about a thousand lags [an estimate: at 512 channels and 1,024 tokens the transforms are 31 ms of a step of HE].

They are two operators of torch, which a compiled model calls unchanged. The precision of products is that of torch
(`torch.set_float32_matmul_precision`).
"""

import torch
from torch import Tensor

from seqloom.ops import gpu as device
from seqloom.ops.autograd import GPU
from seqloom.ops.gpu import PRECISION, blocks, power
from seqloom.ops.lag_sum import adjoint

TIMES = 64
"""positions of a block: a power of two, at least 16"""
NARROW = 16
"""the same in double precision, which needs twice the registers; the fewest rows of a block, too"""
ROWS = 64
"""the most rows of a block"""

WARPS = 8
"""warps of a program that multiplies"""


def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    reason = device.why()
    return {"tiles": reason} if reason else {}


def supports(x: Tensor, w: Tensor) -> bool:
    """Whether the kernels support the taps, on this device: one number per lag and channel."""
    return w.ndim == 2 and device.supports(x.device)


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps (L, D) → (B, T, D)."""
    dtype = torch.promote_types(x.dtype, w.dtype)
    wide_dtype = torch.promote_types(dtype, torch.float32)
    y: Tensor = forward(x.to(wide_dtype), w.to(wide_dtype))
    return y.to(dtype)


def sizes(B: int, dtype: torch.dtype) -> tuple[int, int]:
    """Rows and positions of a block."""
    return (NARROW, NARROW) if dtype == torch.float64 else (min(power(B, NARROW), ROWS), TIMES)


def _forward(x: Tensor, w: Tensor) -> Tensor:
    """y_t = Σ_k x_{t-k} w_k for x (B, T, D) and w (L, D), both float32 or float64."""
    return _tokens_last(_sum_lags(_channels_first(x), w, False))


def _backward(x: Tensor, w: Tensor, g: Tensor, needs_dx: bool, needs_dw: bool) -> tuple[Tensor, Tensor]:
    """The gradients of x and w for g (B, T, D); an empty tensor where one is not needed."""
    gradient = _channels_first(g)
    dx = _tokens_last(_sum_lags(gradient, w, True)) if needs_dx else x.new_empty(0)
    return dx, _taps_gradient(_channels_first(x), gradient, len(w)) if needs_dw else w.new_empty(0)


forward, backward = adjoint.operators("lag_sum_tiles", _forward, _backward, GPU)


def _channels_first(x: Tensor) -> Tensor:
    """(B, T, D) → (D, B, T), contiguous."""
    return x.permute(2, 0, 1).contiguous()


def _tokens_last(y: Tensor) -> Tensor:
    """(D, B, T) → (B, T, D), contiguous."""
    return y.permute(1, 2, 0).contiguous()


def _sum_lags(x: Tensor, w: Tensor, back: bool) -> Tensor:
    """Σ_k x_{t-k} w_k, or, if `back`, Σ_k x_{t+k} w_k, for x (D, B, T) and w (L, D)."""
    from seqloom.ops.lag_sum import gpu_tiles

    (D, B, T), y = x.shape, x.new_empty(x.shape)
    rows, times = sizes(B, x.dtype)
    precise = PRECISION[torch.get_float32_matmul_precision()]
    with torch.cuda.device_of(x):
        gpu_tiles.sum_block[D, blocks(B, rows), blocks(T, times)](
            x, w.mT.contiguous(), y, B, T, len(w), back, rows, times, precise, num_warps=WARPS
        )
    return y


def _taps_gradient(x: Tensor, g: Tensor, L: int) -> Tensor:
    """The gradient of L taps (L, D) for x and g (D, B, T)."""
    from seqloom.ops.lag_sum import gpu_tiles

    D, B, T = x.shape
    rows, times = sizes(B, x.dtype)
    precise = PRECISION[torch.get_float32_matmul_precision()]
    differences = blocks(L, times) + 1  # a lag reaches into the next matrix
    matrices, dw = x.new_empty(D, differences, times, times), x.new_empty(D, L)
    with torch.cuda.device_of(x):
        gpu_tiles.products[D, differences](x, g, matrices, B, T, rows, times, precise, num_warps=WARPS)
        gpu_tiles.diagonals[D, blocks(L, times)](matrices, dw, L, differences, times)
    return dw.mT.contiguous()
