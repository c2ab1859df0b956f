"""The lag sum and the gradient of its inputs as Triton kernels: a program per block of positions and of channels.

    alone    y_t = Σ_k x_{t-k} w_k, each channel by itself
    mixed    the same with a matrix for each lag, inside each group of channels

A program adds up lag by lag. With BACK it reads x_{t+k}, which gives the gradient of the inputs if w has its strides
swapped. The M positions of all rows are consecutive, T per row; products with inputs outside of a row are left out. x
and y are contiguous (M, D), all float32 or all float64; w is read by strides.
"""

import triton
import triton.language as tl


@triton.jit
def sum_by_channel(
    x,
    w,
    y,
    M,
    T,
    D,
    L,
    by_lag,
    by_channel,
    BACK: tl.constexpr,
    TIMES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """y of w (L, D)."""
    m = tl.program_id(0).to(tl.int64) * TIMES + tl.arange(0, TIMES)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    lags = reach(m, M, T, L, BACK)
    offset, in_width = m[:, None] * D + n[None, :], (n < D)[None, :]
    inputs, taps = x + offset, w + n * by_channel
    sum_ = tl.zeros([TIMES, BLOCK], x.dtype.element_ty)
    for k in range(0, tl.max(lags, 0)):
        sum_ += tl.load(inputs, mask=(lags > k)[:, None] & in_width, other=0.0) * tl.load(taps, mask=n < D, other=0.0)
        inputs += D if BACK else -D
        taps += by_lag
    tl.store(y + offset, sum_, mask=(m < M)[:, None] & in_width)


@triton.jit
def sum_by_group(
    x,
    w,
    y,
    M,
    T,
    D,
    L,
    W,
    by_lag,
    by_group,
    by_in,
    by_out,
    BACK: tl.constexpr,
    TIMES: tl.constexpr,
    WIDE: tl.constexpr,
):
    """y of w (L, D/W, W, W)."""
    m = tl.program_id(0).to(tl.int64) * TIMES + tl.arange(0, TIMES)
    group = tl.program_id(1).to(tl.int64)
    out = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    lags = reach(m, M, T, L, BACK)
    inputs = x + m[:, None] * D + group * W
    taps = w + group * by_group + (out * by_out)[None, :]
    sum_ = tl.zeros([TIMES, WIDE], x.dtype.element_ty)
    for k in range(0, tl.max(lags, 0)):
        for first in range(0, W, WIDE):
            into = first + tl.arange(0, WIDE)
            x_block = tl.load(inputs + into[None, :], mask=(lags > k)[:, None] & (into < W)[None, :], other=0.0)
            w_block = tl.load(taps + (into * by_in)[:, None], mask=(into < W)[:, None] & (out < W)[None, :], other=0.0)
            sum_ += tl.dot(x_block, w_block, input_precision="ieee", out_dtype=sum_.dtype)
        inputs += D if BACK else -D
        taps += by_lag
    tl.store(y + m[:, None] * D + group * W + out[None, :], sum_, mask=(m < M)[:, None] & (out < W)[None, :])


@triton.jit
def reach(m, M, T, L, BACK: tl.constexpr):
    """The number of lags that position m reads, at most L: those inside its row of T; 0 after the last row."""
    t = (m % T).to(tl.int32)
    in_row = T - t if BACK else t + 1
    return tl.where(m < M, tl.minimum(in_row, L), 0)
