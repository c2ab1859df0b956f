"""The gradient of the lag sum's taps as Triton kernels: a program per block of taps and part of the positions.

    alone    dw_k = Σ_t x_{t-k} g_t, each channel by itself
    mixed    dw_k = Σ_t x_{t-k}ᵀ g_t, a matrix for each lag, inside each group of channels

Positions are as in gpu_kernels.py. A part has `size` positions and its own sums, which the caller adds up.
"""

import triton
import triton.language as tl


@triton.jit
def slope_by_channel(
    x,
    g,
    dw,
    M,
    T,
    D,
    L,
    size,
    PIECE: tl.constexpr,
    LAGS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dw (parts, L, D) in float64; PIECE positions at a time are summed in the dtype of x."""
    k = tl.program_id(0) * LAGS + tl.arange(0, LAGS)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(2).to(tl.int64)
    start = part * size
    end = tl.minimum(start + size, M)
    total = tl.zeros([LAGS, BLOCK], tl.float64)
    for first in range(start, end, PIECE):
        sum_ = tl.zeros([LAGS, BLOCK], x.dtype.element_ty)
        for m in range(first, tl.minimum(first + PIECE, end)):
            in_row = (k <= m % T)[:, None] & (n < D)[None, :]
            inputs = tl.load(x + (m - k)[:, None] * D + n[None, :], mask=in_row, other=0.0)
            sum_ += inputs * tl.load(g + m * D + n, mask=n < D, other=0.0)
        total += sum_.to(tl.float64)
    tl.store(dw + (part * L + k[:, None]) * D + n[None, :], total, mask=(k < L)[:, None] & (n < D)[None, :])


@triton.jit
def slope_by_group(
    x,
    g,
    dw,
    M,
    T,
    D,
    L,
    W,
    size,
    TIMES: tl.constexpr,
    WIDE: tl.constexpr,
):
    """dw (parts, L, D/W, W, W); `size` is a multiple of TIMES."""
    across = tl.cdiv(W, WIDE)
    k, group = tl.program_id(0) // across, tl.program_id(1) // across
    into = tl.program_id(0) % across * WIDE + tl.arange(0, WIDE)
    out = tl.program_id(1) % across * WIDE + tl.arange(0, WIDE)
    part = tl.program_id(2).to(tl.int64)
    start = part * size
    end = tl.minimum(start + size, M)
    sum_ = tl.zeros([WIDE, WIDE], x.dtype.element_ty)
    for first in range(start, end, TIMES):
        m = first + tl.arange(0, TIMES)
        in_row = (m < end) & (m % T >= k)
        inputs = tl.load(
            x + (m - k)[None, :] * D + group * W + into[:, None], mask=in_row[None, :] & (into < W)[:, None], other=0.0
        )
        g_block = tl.load(
            g + m[:, None] * D + group * W + out[None, :], mask=in_row[:, None] & (out < W)[None, :], other=0.0
        )
        sum_ += tl.dot(inputs, g_block, input_precision="ieee", out_dtype=sum_.dtype)
    offset = ((part * L + k) * (D // W) + group) * W
    tl.store(dw + (offset + into[:, None]) * W + out[None, :], sum_, mask=(into < W)[:, None] & (out < W)[None, :])
