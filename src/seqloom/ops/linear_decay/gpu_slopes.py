"""The gradients of the chunks as Triton kernels; conventions as in `gpu_kernels`.

With a_ij = (q_i · k_j) e^{g_{j+1} + … + g_i}, and S and S' before and after a chunk:

    A = tril(dy vᵀ) e^{…},   dq = A k + e^{…} dy Sᵀ,   dk = Aᵀ q + e^{…} v dS'ᵀ,   dv = aᵀ dy + e^{…} k dS'
    dS = e^{g_1 + … + g_C} dS' + Σ_i e^{g_1 + … + g_i} q_iᵀ dy_i

The gradient of a sum of g in an exponent is added to the gradient of each of these g: sums of the terms that contain a
g, never differences of two sums.

state_gradients  a program for each head and block of S: the gradients of S after each chunk, from the last to the first
input_gradients  a program for each head and chunk: the gradients of its q, k, v and g
"""

import triton
import triton.language as tl

from seqloom.ops.linear_decay.gpu_kernels import decay_between, decay_to_end, decays, lower, part, put, tile


@triton.jit
def state_gradients(
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
    entry, in_state = rows[:, None] * V + columns[None, :], (rows < K)[:, None] & (columns < V)[None, :]
    head_g = g + head // H * by_row + head % H * by_head
    dS = tl.zeros([WIDE, WIDE], q.dtype.element_ty)
    if ENDS:
        dS += tl.load(dnew_state + head * K * V + entry, mask=in_state, other=0.0)
    chunks = tl.cdiv(T, C)
    for i in range(chunks):
        first = (chunks - 1 - i) * C
        tl.store(dadded + (head * chunks + chunks - 1 - i) * K * V + entry, dS, mask=in_state)
        queries = tile(q, head, first, T, K, tl.program_id(1) * WIDE, C, WIDE)
        dy_block = tile(dy, head, first, T, V, tl.program_id(2) * WIDE, C, WIDE)
        if DECAYS:
            chunk_g = decays(head_g, first, T, by_token, C)
            dy_block *= tl.exp(tl.cumsum(chunk_g, 0))[:, None]
            dS *= tl.exp(tl.sum(chunk_g, 0))
        dS += tl.dot(tl.trans(queries), dy_block, input_precision=PRECISION, out_dtype=dS.dtype)
    tl.store(dstate + head * K * V + entry, dS, mask=in_state)


@triton.jit
def input_gradients(  # noqa: PLR0915  # one kernel, since all parts use the same products
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
    first_entry = (head * tl.cdiv(T, C) + chunk) * K * V
    before += first_entry
    dadded += first_entry
    head_g = g + head // H * by_row + head % H * by_head
    pairs = tl.zeros([C, C], q.dtype.element_ty)
    dy_v = tl.zeros([C, C], q.dtype.element_ty)
    for row in range(0, K, WIDE):
        queries, keys = tile(q, head, first, T, K, row, C, WIDE), tile(k, head, first, T, K, row, C, WIDE)
        pairs += tl.dot(queries, tl.trans(keys), input_precision=PRECISION, out_dtype=pairs.dtype)
    for column in range(0, V, WIDE):
        dy_block, values = tile(dy, head, first, T, V, column, C, WIDE), tile(v, head, first, T, V, column, C, WIDE)
        dy_v += tl.dot(dy_block, tl.trans(values), input_precision=PRECISION, out_dtype=dy_v.dtype)
    since = tl.zeros([C], q.dtype.element_ty) + 1.0
    until = tl.zeros([C], q.dtype.element_ty) + 1.0
    if DECAYS:
        chunk_g = decays(head_g, first, T, by_token, C)
        since = tl.exp(tl.cumsum(chunk_g, 0))
        until = tl.exp(decay_to_end(head_g, first, T, by_token, C))
        decay = tl.exp(decay_between(chunk_g, C))
        pairs *= decay
        dsums = dy_v * lower(pairs, C)
        dy_v *= decay
    pairs, dy_v = lower(pairs, C), lower(dy_v, C)
    dsince = tl.zeros([C], q.dtype.element_ty)
    duntil = tl.zeros([C], q.dtype.element_ty)
    dacross = tl.zeros([WIDE], q.dtype.element_ty)
    for row in range(0, K, WIDE):
        queries, keys = tile(q, head, first, T, K, row, C, WIDE), tile(k, head, first, T, K, row, C, WIDE)
        dq_block = tl.zeros([C, WIDE], q.dtype.element_ty)
        dk_block = tl.zeros([C, WIDE], q.dtype.element_ty)
        for column in range(0, V, WIDE):
            dy_block, values = tile(dy, head, first, T, V, column, C, WIDE), tile(v, head, first, T, V, column, C, WIDE)
            S, dS = part(before, K, V, row, column, WIDE), part(dadded, K, V, row, column, WIDE)
            dq_block += tl.dot(dy_block, tl.trans(S), input_precision=PRECISION, out_dtype=dq_block.dtype)
            dk_block += tl.dot(values, tl.trans(dS), input_precision=PRECISION, out_dtype=dk_block.dtype)
            if DECAYS:
                dacross += tl.sum(S * dS, 0)
        dq_block *= since[:, None]
        dk_block *= until[:, None]
        if DECAYS:
            dsince += tl.sum(queries * dq_block, 1)
            duntil += tl.sum(keys * dk_block, 1)
        dq_block += tl.dot(dy_v, keys, input_precision=PRECISION, out_dtype=dq_block.dtype)
        dk_block += tl.dot(tl.trans(dy_v), queries, input_precision=PRECISION, out_dtype=dk_block.dtype)
        put(dq, dq_block, head, first, T, K, row, C, WIDE)
        put(dk, dk_block, head, first, T, K, row, C, WIDE)
    for column in range(0, V, WIDE):
        dy_block = tile(dy, head, first, T, V, column, C, WIDE)
        dv_block = tl.zeros([C, WIDE], q.dtype.element_ty)
        for row in range(0, K, WIDE):
            keys, dS = tile(k, head, first, T, K, row, C, WIDE), part(dadded, K, V, row, column, WIDE)
            dv_block += tl.dot(keys, dS, input_precision=PRECISION, out_dtype=dv_block.dtype)
        dv_block *= until[:, None]
        dv_block += tl.dot(tl.trans(pairs), dy_block, input_precision=PRECISION, out_dtype=dv_block.dtype)
        put(dv, dv_block, head, first, T, V, column, C, WIDE)
    if DECAYS:
        i = tl.arange(0, C)
        across = tl.exp(tl.sum(chunk_g, 0)) * tl.sum(dacross, 0)
        tl.store(dg + head * T + first + i, tl.cumsum(dsince, 0, reverse=True) + across, mask=first + i < T)
        pair_sums = tl.where(i[:, None] > i[None, :], tl.cumsum(dsums, 1), 0.0)
        to_next = tl.where(i < C - 1, tl.sum(pair_sums, 0) + tl.cumsum(duntil, 0), 0.0)
        position = first + tl.where(i < C - 1, i + 1, 0)  # the sum of token i belongs to token i + 1
        tl.store(later + head * T + position, to_next, mask=position < T)
