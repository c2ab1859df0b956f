"""Causal attention in narrow heads as Triton kernels: a program for each head of a row.

    forward    y_i = Σ_{j≤i} a_ij v_j,   a_ij = e^{z_ij} / Σ_{j'≤i} e^{z_ij'},   z_ij = q_i · k_j · SCALE
    backward   dv_j = Σ_i a_ij dy_i,   dz_ij = a_ij (dy_i · v_j - Σ_j' a_ij' dy_i · v_j')
               dq_i = SCALE Σ_j dz_ij k_j,   dk_j = SCALE Σ_i dz_ij q_i

All keys and values of the head stay in registers while blocks of QUERIES pass. The weights of a block are computed in
both passes, so that nothing is stored but y. Tokens of q, k and v are read by strides, their channels are consecutive;
y and the gradients are contiguous (B, T, H, channels). Sums are in float32, or in float64 for inputs in float64.
"""

import triton
import triton.language as tl


@triton.jit
def forward(
    q,
    k,
    v,
    y,
    H,
    shared,
    T,
    K,
    V,
    q_row,
    q_token,
    q_head,
    k_row,
    k_token,
    k_head,
    v_row,
    v_token,
    v_head,
    SCALE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """y of q, k and v; `shared` heads of queries share a head of keys."""
    row, head = tl.program_id(0).to(tl.int64) // H, tl.program_id(0).to(tl.int64) % H
    head_q = q + row * q_row + head * q_head
    head_y = y + (row * T * H + head) * V
    keys = tokens(k + row * k_row + head // shared * k_head, 0, T, k_token, K, KEYS, WIDTH, WIDE)
    values = tokens(v + row * v_row + head // shared * v_head, 0, T, v_token, V, KEYS, WIDTH, WIDE)
    for first in range(0, T, QUERIES):
        queries = tokens(head_q, first, T, q_token, K, QUERIES, WIDTH, WIDE) * SCALE
        a = weights(queries, keys, first, QUERIES, KEYS, PRECISION)
        put(head_y, tl.dot(a, values, input_precision=PRECISION, out_dtype=WIDE), first, T, H * V, V, QUERIES, WIDTH)


@triton.jit
def backward(
    q,
    k,
    v,
    dy,
    dq,
    dk,
    dv,
    H,
    shared,
    T,
    K,
    V,
    q_row,
    q_token,
    q_head,
    k_row,
    k_token,
    k_head,
    v_row,
    v_token,
    v_head,
    SCALE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradients of all inputs for dy; dk and dv of each head of queries, not yet summed over those that share."""
    row, head = tl.program_id(0).to(tl.int64) // H, tl.program_id(0).to(tl.int64) % H
    head_q = q + row * q_row + head * q_head
    in_keys, in_values = (row * T * H + head) * K, (row * T * H + head) * V
    keys = tokens(k + row * k_row + head // shared * k_head, 0, T, k_token, K, KEYS, WIDTH, WIDE)
    values = tokens(v + row * v_row + head // shared * v_head, 0, T, v_token, V, KEYS, WIDTH, WIDE)
    dkeys = tl.zeros([KEYS, WIDTH], WIDE)
    dvalues = tl.zeros([KEYS, WIDTH], WIDE)
    for first in range(0, T, QUERIES):
        queries = tokens(head_q, first, T, q_token, K, QUERIES, WIDTH, WIDE) * SCALE
        dy_block = tokens(dy + in_values, first, T, H * V, V, QUERIES, WIDTH, WIDE)
        a = weights(queries, keys, first, QUERIES, KEYS, PRECISION)
        dvalues += tl.dot(tl.trans(a), dy_block, input_precision=PRECISION, out_dtype=WIDE)
        da = tl.dot(dy_block, tl.trans(values), input_precision=PRECISION, out_dtype=WIDE)
        dz = a * (da - tl.sum(a * da, 1)[:, None])
        dkeys += tl.dot(tl.trans(dz), queries, input_precision=PRECISION, out_dtype=WIDE)
        dqueries = tl.dot(dz, keys, input_precision=PRECISION, out_dtype=WIDE) * SCALE
        put(dq + in_keys, dqueries, first, T, H * K, K, QUERIES, WIDTH)
    put(dk + in_keys, dkeys, 0, T, H * K, K, KEYS, WIDTH)
    put(dv + in_values, dvalues, 0, T, H * V, V, KEYS, WIDTH)


@triton.jit
def weights(queries, keys, first, QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr):
    """The weights a (QUERIES, KEYS) of the queries from the token `first` on, which are multiplied by SCALE."""
    i, j = first + tl.arange(0, QUERIES), tl.arange(0, KEYS)
    z = tl.dot(queries, tl.trans(keys), input_precision=PRECISION, out_dtype=queries.dtype)
    z = tl.where(j[None, :] <= i[:, None], z, float("-inf"))
    e = tl.exp(z - tl.max(z, 1)[:, None])
    return e / tl.sum(e, 1)[:, None]


@triton.jit
def tokens(x, first, T, by_token, N, COUNT: tl.constexpr, WIDTH: tl.constexpr, WIDE: tl.constexpr):
    """COUNT tokens of a head from the token `first` on (COUNT, WIDTH), 0 after the last token and the last channel."""
    t, n = first + tl.arange(0, COUNT), tl.arange(0, WIDTH)
    at = t[:, None].to(tl.int64) * by_token + n[None, :]
    return tl.load(x + at, mask=(t < T)[:, None] & (n < N)[None, :], other=0.0).to(WIDE)


@triton.jit
def put(x, values, first, T, by_token, N, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Writes what `tokens` reads."""
    t, n = first + tl.arange(0, COUNT), tl.arange(0, WIDTH)
    at = t[:, None].to(tl.int64) * by_token + n[None, :]
    tl.store(x + at, values.to(x.dtype.element_ty), mask=(t < T)[:, None] & (n < N)[None, :])
