"""The gradients of the chunks as Triton kernels, by the equations of `inplace`; conventions as in `gpu_kernels`.

reached   a program for each head and block of S: the gradients of S after each chunk, from the last to the first
slopes    a program for each head and chunk: the gradients of its q, k, v and g
"""

import triton
import triton.language as tl

from seqloom.ops.linear_decay.gpu_kernels import between, decays, left, lower, part, put, tile


@triton.jit
def reached(
    q,
    dy,
    g,
    dnew_state,
    dadded,
    dstate,
    H,
    T,
    K,
    V,
    by_row,
    by_head,
    by_token,
    DECAYS: tl.constexpr,
    ENDS: tl.constexpr,
    C: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradients of S after each chunk, and before the first; `dnew_state` is the gradient of the last S if ENDS."""
    head = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    columns = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    entry, there = rows[:, None] * V + columns[None, :], (rows < K)[:, None] & (columns < V)[None, :]
    of_head = g + head // H * by_row + head % H * by_head
    slope = tl.zeros([WIDE, WIDE], q.dtype.element_ty)
    if ENDS:
        slope += tl.load(dnew_state + head * K * V + entry, mask=there, other=0.0)
    chunks = tl.cdiv(T, C)
    for i in range(chunks):
        first = (chunks - 1 - i) * C
        tl.store(dadded + (head * chunks + chunks - 1 - i) * K * V + entry, slope, mask=there)
        queries = tile(q, head, first, T, K, tl.program_id(1) * WIDE, C, WIDE)
        above = tile(dy, head, first, T, V, tl.program_id(2) * WIDE, C, WIDE)
        if DECAYS:
            g_here = decays(of_head, first, T, by_token, C)
            above *= tl.exp(tl.cumsum(g_here, 0))[:, None]
            slope *= tl.exp(tl.sum(g_here, 0))
        slope += tl.dot(tl.trans(queries), above, input_precision=PRECISION, out_dtype=slope.dtype)
    tl.store(dstate + head * K * V + entry, slope, mask=there)


@triton.jit
def slopes(  # noqa: PLR0915  # one kernel, since all parts use the same products
    q,
    k,
    v,
    g,
    before,
    dy,
    dadded,
    dq,
    dk,
    dv,
    dg,
    later,
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
    """The gradients of q, k and v, and of g as the sum of `dg` and `later` (B H, T)."""
    head, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first = chunk * C
    at = (head * tl.cdiv(T, C) + chunk) * K * V
    before += at
    dadded += at
    of_head = g + head // H * by_row + head % H * by_head
    pairs = tl.zeros([C, C], q.dtype.element_ty)
    above = tl.zeros([C, C], q.dtype.element_ty)
    for row in range(0, K, WIDE):
        queries, keys = tile(q, head, first, T, K, row, C, WIDE), tile(k, head, first, T, K, row, C, WIDE)
        pairs += tl.dot(queries, tl.trans(keys), input_precision=PRECISION, out_dtype=pairs.dtype)
    for column in range(0, V, WIDE):
        slope, values = tile(dy, head, first, T, V, column, C, WIDE), tile(v, head, first, T, V, column, C, WIDE)
        above += tl.dot(slope, tl.trans(values), input_precision=PRECISION, out_dtype=above.dtype)
    since = tl.zeros([C], q.dtype.element_ty) + 1.0
    until = tl.zeros([C], q.dtype.element_ty) + 1.0
    if DECAYS:
        g_here = decays(of_head, first, T, by_token, C)
        since = tl.exp(tl.cumsum(g_here, 0))
        until = tl.exp(left(of_head, first, T, by_token, C))
        decay = tl.exp(between(g_here, C))
        pairs *= decay
        in_between = above * lower(pairs, C)
        above *= decay
    pairs, above = lower(pairs, C), lower(above, C)
    in_since = tl.zeros([C], q.dtype.element_ty)
    in_until = tl.zeros([C], q.dtype.element_ty)
    in_across = tl.zeros([WIDE], q.dtype.element_ty)
    for row in range(0, K, WIDE):
        queries, keys = tile(q, head, first, T, K, row, C, WIDE), tile(k, head, first, T, K, row, C, WIDE)
        to_q = tl.zeros([C, WIDE], q.dtype.element_ty)
        to_k = tl.zeros([C, WIDE], q.dtype.element_ty)
        for column in range(0, V, WIDE):
            slope, values = tile(dy, head, first, T, V, column, C, WIDE), tile(v, head, first, T, V, column, C, WIDE)
            S, dS = part(before, K, V, row, column, WIDE), part(dadded, K, V, row, column, WIDE)
            to_q += tl.dot(slope, tl.trans(S), input_precision=PRECISION, out_dtype=to_q.dtype)
            to_k += tl.dot(values, tl.trans(dS), input_precision=PRECISION, out_dtype=to_k.dtype)
            if DECAYS:
                in_across += tl.sum(S * dS, 0)
        to_q *= since[:, None]
        to_k *= until[:, None]
        if DECAYS:
            in_since += tl.sum(queries * to_q, 1)
            in_until += tl.sum(keys * to_k, 1)
        to_q += tl.dot(above, keys, input_precision=PRECISION, out_dtype=to_q.dtype)
        to_k += tl.dot(tl.trans(above), queries, input_precision=PRECISION, out_dtype=to_k.dtype)
        put(dq, to_q, head, first, T, K, row, C, WIDE)
        put(dk, to_k, head, first, T, K, row, C, WIDE)
    for column in range(0, V, WIDE):
        slope = tile(dy, head, first, T, V, column, C, WIDE)
        to_v = tl.zeros([C, WIDE], q.dtype.element_ty)
        for row in range(0, K, WIDE):
            keys, dS = tile(k, head, first, T, K, row, C, WIDE), part(dadded, K, V, row, column, WIDE)
            to_v += tl.dot(keys, dS, input_precision=PRECISION, out_dtype=to_v.dtype)
        to_v *= until[:, None]
        to_v += tl.dot(tl.trans(pairs), slope, input_precision=PRECISION, out_dtype=to_v.dtype)
        put(dv, to_v, head, first, T, V, column, C, WIDE)
    if DECAYS:
        i = tl.arange(0, C)
        whole = tl.exp(tl.sum(g_here, 0)) * tl.sum(in_across, 0)
        tl.store(dg + head * T + first + i, tl.cumsum(in_since, 0, reverse=True) + whole, mask=first + i < T)
        passed = tl.where(i[:, None] > i[None, :], tl.cumsum(in_between, 1), 0.0)
        to_next = tl.where(i < C - 1, tl.sum(passed, 0) + tl.cumsum(in_until, 0), 0.0)
        position = first + tl.where(i < C - 1, i + 1, 0)  # the sum of token i belongs to token i + 1
        tl.store(later + head * T + position, to_next, mask=position < T)
