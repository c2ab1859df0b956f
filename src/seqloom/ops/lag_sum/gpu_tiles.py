"""The lag sum of channels that do not mix as products of Toeplitz tiles, in Triton: a program per channel and block.

    summed      y_t = Σ_s x_s m_{s,t},   m_{s,t} = w_{t-s}       the tile m is formed from the taps, never stored
    products    c_{δ,i,j} = Σ_q x_{(q-δ) S + i} g_{q S + j}      S = TIMES positions of a block, δ blocks between both
    diagonals   dw_k = Σ c_{δ,i,j}  over  δ S + j - i = k

With BACK m_{s,t} = w_{s-t}, which gives the gradient of the inputs. Rows are the other side of all products. x, y and g
are contiguous (D, B, T), taps (D, L), all float32 or all float64.
"""

import triton
import triton.language as tl


@triton.jit
def sum_block(
    x,
    w,
    y,
    B,
    T,
    L,
    BACK: tl.constexpr,
    ROWS: tl.constexpr,
    TIMES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A block of y (ROWS, TIMES): over all blocks of inputs that its positions read."""
    channel = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(2) * TIMES
    t = first + tl.arange(0, TIMES)
    start, end = first, tl.minimum(first + TIMES - 1 + L, T)
    if not BACK:
        start, end = tl.maximum(first - L + 1, 0) // TIMES * TIMES, first + 1
    sum_ = tl.zeros([ROWS, TIMES], x.dtype.element_ty)
    for at in range(start, end, TIMES):
        s = at + tl.arange(0, TIMES)
        lag = s[:, None] - t[None, :] if BACK else t[None, :] - s[:, None]
        tile = tl.load(w + channel * L + lag, mask=(lag >= 0) & (lag < L), other=0.0)
        inputs = block(x, channel, row[:, None], s[None, :], B, T)
        sum_ += tl.dot(inputs, tile, input_precision=PRECISION, out_dtype=sum_.dtype)
    at_y = (channel * B + row[:, None]) * T + t[None, :]
    tl.store(y + at_y, sum_, mask=(row < B)[:, None] & (t < T)[None, :])


@triton.jit
def products(
    x,
    g,
    c,
    B,
    T,
    ROWS: tl.constexpr,
    TIMES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """c (D, differences of blocks, TIMES, TIMES), one matrix a program."""
    channel = tl.program_id(0).to(tl.int64)
    offset = tl.program_id(1) * TIMES
    i = tl.arange(0, TIMES)
    sum_ = tl.zeros([TIMES, TIMES], x.dtype.element_ty)
    for at in range(offset, T, TIMES):
        for first in range(0, B, ROWS):
            row = first + tl.arange(0, ROWS)
            inputs = block(x, channel, row[None, :], (at - offset + i)[:, None], B, T)
            gradients = block(g, channel, row[:, None], (at + i)[None, :], B, T)
            sum_ += tl.dot(inputs, gradients, input_precision=PRECISION, out_dtype=sum_.dtype)
    matrix = (channel * tl.num_programs(1) + tl.program_id(1)) * TIMES * TIMES
    tl.store(c + matrix + i[:, None] * TIMES + i[None, :], sum_)


@triton.jit
def diagonals(c, dw, L, n, TIMES: tl.constexpr):
    """dw (D, L) of c (D, n, TIMES, TIMES): a lag lies in the upper half of one and the lower half of the next."""
    channel, difference = tl.program_id(0).to(tl.int64), tl.program_id(1)
    m = tl.arange(0, TIMES)
    total = tl.zeros([TIMES], tl.float64)
    for i in range(0, TIMES):
        upper = m + i < TIMES
        matrix = tl.where(upper, difference, difference + 1)
        j = tl.where(upper, m + i, m + i - TIMES)
        entry = ((channel * n + matrix) * TIMES + i) * TIMES + j
        total += tl.load(c + entry, mask=matrix < n, other=0.0).to(tl.float64)
    k = difference * TIMES + m
    tl.store(dw + channel * L + k, total.to(dw.dtype.element_ty), mask=k < L)


@triton.jit
def block(x, channel, row, t, B, T):
    """The entries of x (D, B, T) at these rows and positions, 0 outside."""
    return tl.load(x + (channel * B + row) * T + t, mask=(row < B) & (t < T), other=0.0)
