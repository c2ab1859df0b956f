"""The chunks of `chunks` as Triton kernels, forward: first the states between chunks, then all chunks at once.

    states    a program for each head and block of S, which computes S before each chunk in order
    outputs   a program for each head, chunk and block of values

Tensors are contiguous, (B H, T, ·) for tokens and (B H, chunks, K, V) for states, all of one type, float32 or float64;
g is read by strides (row, head, token). The sizes of blocks and chunks are powers of two, at least 16; values beyond
the end of a sequence or of a width are 0. Every exponent is a sum of some of the g, never a difference of two sums.
"""

import triton
import triton.language as tl


@triton.jit
def states(
    k,
    v,
    g,
    state,
    before,
    new_state,
    H,
    T,
    K,
    V,
    by_row,
    by_head,
    by_token,
    DECAYS: tl.constexpr,
    BEGUN: tl.constexpr,
    C: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """S before each chunk, and after the last; S before the first is `state` if it is BEGUN, else 0."""
    head = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    columns = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    entry, in_state = rows[:, None] * V + columns[None, :], (rows < K)[:, None] & (columns < V)[None, :]
    head_g = g + head // H * by_row + head % H * by_head
    S = tl.zeros([WIDE, WIDE], k.dtype.element_ty)
    if BEGUN:
        S += tl.load(state + head * K * V + entry, mask=in_state, other=0.0)
    before += head * tl.cdiv(T, C) * K * V
    for first in range(0, T, C):
        tl.store(before + entry, S, mask=in_state)
        before += K * V
        keys = tile(k, head, first, T, K, tl.program_id(1) * WIDE, C, WIDE)
        values = tile(v, head, first, T, V, tl.program_id(2) * WIDE, C, WIDE)
        if DECAYS:
            values *= tl.exp(decay_to_end(head_g, first, T, by_token, C))[:, None]
            S *= tl.exp(tl.sum(decays(head_g, first, T, by_token, C), 0))
        S += tl.dot(tl.trans(keys), values, input_precision=PRECISION, out_dtype=S.dtype)
    tl.store(new_state + head * K * V + entry, S, mask=in_state)


@triton.jit
def outputs(
    q,
    k,
    v,
    g,
    before,
    y,
    H,
    T,
    K,
    V,
    by_row,
    by_head,
    by_token,
    DECAYS: tl.constexpr,
    C: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """y (B H, T, V) from S before each chunk."""
    head, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, column = chunk * C, tl.program_id(2) * WIDE
    before += (head * tl.cdiv(T, C) + chunk) * K * V
    head_g = g + head // H * by_row + head % H * by_head
    a = tl.zeros([C, C], q.dtype.element_ty)
    y_block = tl.zeros([C, WIDE], q.dtype.element_ty)
    for row in range(0, K, WIDE):
        queries = tile(q, head, first, T, K, row, C, WIDE)
        keys = tile(k, head, first, T, K, row, C, WIDE)
        S = part(before, K, V, row, column, WIDE)
        a += tl.dot(queries, tl.trans(keys), input_precision=PRECISION, out_dtype=a.dtype)
        y_block += tl.dot(queries, S, input_precision=PRECISION, out_dtype=y_block.dtype)
    if DECAYS:
        chunk_g = decays(head_g, first, T, by_token, C)
        a *= tl.exp(decay_between(chunk_g, C))
        y_block *= tl.exp(tl.cumsum(chunk_g, 0))[:, None]
    values = tile(v, head, first, T, V, column, C, WIDE)
    y_block += tl.dot(lower(a, C), values, input_precision=PRECISION, out_dtype=y_block.dtype)
    put(y, y_block, head, first, T, V, column, C, WIDE)


@triton.jit
def tile(x, head, first, T, N, column, C: tl.constexpr, WIDE: tl.constexpr):
    """Tokens of a chunk (C, WIDE), from x (B H, T, N)."""
    t, n = first + tl.arange(0, C), column + tl.arange(0, WIDE)
    at = (head * T + t[:, None]) * N + n[None, :]
    return tl.load(x + at, mask=(t < T)[:, None] & (n < N)[None, :], other=0.0)


@triton.jit
def put(x, values, head, first, T, N, column, C: tl.constexpr, WIDE: tl.constexpr):
    """Writes what `tile` reads."""
    t, n = first + tl.arange(0, C), column + tl.arange(0, WIDE)
    at = (head * T + t[:, None]) * N + n[None, :]
    tl.store(x + at, values, mask=(t < T)[:, None] & (n < N)[None, :])


@triton.jit
def part(S, K, V, row, column, WIDE: tl.constexpr):
    """A block (WIDE, WIDE) of one state (K, V)."""
    n, m = row + tl.arange(0, WIDE), column + tl.arange(0, WIDE)
    return tl.load(S + n[:, None] * V + m[None, :], mask=(n < K)[:, None] & (m < V)[None, :], other=0.0)


@triton.jit
def decays(g, first, T, by_token, C: tl.constexpr):
    """g of the tokens of a chunk (C,), 0 after the last token."""
    t = first + tl.arange(0, C)
    return tl.load(g + t.to(tl.int64) * by_token, mask=t < T, other=0.0)


@triton.jit
def decay_to_end(g, first, T, by_token, C: tl.constexpr):
    """The log decay from each token to the end of the chunk: g_{j+1} + … + g_C (C,)."""
    t = first + tl.arange(0, C) + 1
    later = tl.load(g + t.to(tl.int64) * by_token, mask=(t < T) & (t < first + C), other=0.0)
    return tl.cumsum(later, 0, reverse=True)


@triton.jit
def decay_between(g, C: tl.constexpr):
    """(i, j): g_{j+1} + … + g_i, 0 where j ≥ i."""
    i = tl.arange(0, C)
    return tl.cumsum(tl.where(i[:, None] > i[None, :], g[:, None], 0.0), 0)


@triton.jit
def lower(x, C: tl.constexpr):
    """x (i, j) where j ≤ i, else 0."""
    i = tl.arange(0, C)
    return tl.where(i[:, None] >= i[None, :], x, 0.0)
