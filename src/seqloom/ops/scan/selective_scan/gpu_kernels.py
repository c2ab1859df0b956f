"""The selective scan and its gradients as Triton kernels: a program for each row and block of channels, token by token.

Tensors are contiguous, all float32 or all float64; a missing tensor is an arbitrary pointer that is not read. A block
of channels has its states (channels, N) in registers. With SAVES_STATES, forward saves the state before each chunk of
tokens; backward recomputes the states of a chunk into `scratch`. Sums over tokens are taken per chunk, then in double
precision. See `walks` for the equations.
"""

import triton
import triton.language as tl


@triton.jit
def forward(
    u,
    delta,
    log_rate,
    b,
    c,
    state,
    bias,
    skip,
    gate,
    lengths,
    y,
    new_state,
    marks,
    T,
    D,
    N,
    HAS_STATE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_SKIP: tl.constexpr,
    HAS_GATE: tl.constexpr,
    HAS_LENGTHS: tl.constexpr,
    SAVES_STATES: tl.constexpr,
    STATES: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """y (B, T, D) up to the end of each row, the state after it (B, D, N), and marks (B, chunks, D, N)."""
    row = tl.program_id(0).to(tl.int64)
    d, n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATES)
    d_mask, n_mask = d < D, n < N
    at_dn, dn_mask = d[:, None] * N + n[None, :], d_mask[:, None] & n_mask[None, :]
    A = -tl.exp(tl.load(log_rate + at_dn, mask=dn_mask, other=0.0))
    h = tl.zeros_like(A)
    if HAS_STATE:
        h += tl.load(state + row * D * N + at_dn, mask=dn_mask, other=0.0)
    bias_d = tl.zeros([BLOCK], A.dtype)
    skip_d = tl.zeros([BLOCK], A.dtype)
    if HAS_BIAS:
        bias_d += tl.load(bias + d, mask=d_mask, other=0.0)
    if HAS_SKIP:
        skip_d += tl.load(skip + d, mask=d_mask, other=0.0)
    end = tl.load(lengths + row) if HAS_LENGTHS else T
    marks += row * tl.cdiv(T, CHUNK) * D * N
    for first in range(0, end, CHUNK):
        if SAVES_STATES:
            tl.store(marks + at_dn, h, mask=dn_mask)
            marks += D * N
        for t in tl.range(first, tl.minimum(first + CHUNK, end), num_stages=STAGES):
            at_d, at_n = (row * T + t) * D + d, (row * T + t) * N + n
            u_t = tl.load(u + at_d, mask=d_mask, other=0.0)
            step = tl.load(delta + at_d, mask=d_mask, other=0.0)
            if HAS_BIAS:
                step = softplus(step + bias_d)
            input = (step * u_t)[:, None] * tl.load(b + at_n, mask=n_mask, other=0.0)[None, :]
            h = tl.exp(step[:, None] * A) * h + input
            out = tl.sum(h * tl.load(c + at_n, mask=n_mask, other=0.0)[None, :], 1)
            if HAS_SKIP:
                out += skip_d * u_t
            if HAS_GATE:
                z = tl.load(gate + at_d, mask=d_mask, other=0.0)
                out *= z * tl.sigmoid(z)
            tl.store(y + at_d, out, mask=d_mask)
    tl.store(new_state + row * D * N + at_dn, h, mask=dn_mask)


@triton.jit
def backward(  # noqa: PLR0915  # one walk
    u,
    delta,
    log_rate,
    b,
    c,
    bias,
    skip,
    gate,
    lengths,
    marks,
    dy,
    dnew_state,
    scratch,
    du,
    ddelta,
    dA,
    db,
    dc,
    dstate,
    dbias,
    dskip,
    dgate,
    T,
    D,
    N,
    HAS_BIAS: tl.constexpr,
    HAS_SKIP: tl.constexpr,
    HAS_GATE: tl.constexpr,
    HAS_LENGTHS: tl.constexpr,
    HAS_DNEW_STATE: tl.constexpr,
    STATES: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The gradients of all inputs, by the equations of `walks`; P is the gradient that a state gets from later tokens.

    Those named dA, dbias and dskip (float64) are not yet summed over rows, db and dc not yet over blocks of channels.
    """
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    d, n = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATES)
    d_mask, n_mask = d < D, n < N
    at_dn, dn_mask = d[:, None] * N + n[None, :], d_mask[:, None] & n_mask[None, :]
    A = -tl.exp(tl.load(log_rate + at_dn, mask=dn_mask, other=0.0))
    P = tl.zeros_like(A)
    if HAS_DNEW_STATE:
        P += tl.load(dnew_state + row * D * N + at_dn, mask=dn_mask, other=0.0)
    bias_d = tl.zeros([BLOCK], A.dtype)
    skip_d = tl.zeros([BLOCK], A.dtype)
    if HAS_BIAS:
        bias_d += tl.load(bias + d, mask=d_mask, other=0.0)
    if HAS_SKIP:
        skip_d += tl.load(skip + d, mask=d_mask, other=0.0)
    end = tl.load(lengths + row) if HAS_LENGTHS else T
    scratch += row * CHUNK * D * N
    at_parts = (block * tl.num_programs(0) + row) * T * N
    dA_total = tl.zeros([BLOCK, STATES], tl.float64)
    dbias_total = tl.zeros([BLOCK], tl.float64)
    dskip_total = tl.zeros([BLOCK], tl.float64)
    chunks = tl.cdiv(end, CHUNK)
    for i in range(chunks):
        first = (chunks - 1 - i) * CHUNK
        last = tl.minimum(first + CHUNK, end)
        mark = row * tl.cdiv(T, CHUNK) + chunks - 1 - i
        h = tl.load(marks + mark * D * N + at_dn, mask=dn_mask, other=0.0)
        for t in tl.range(first, last, num_stages=STAGES):
            at_d, at_n = (row * T + t) * D + d, (row * T + t) * N + n
            tl.store(scratch + (t - first) * D * N + at_dn, h, mask=dn_mask)
            step = tl.load(delta + at_d, mask=d_mask, other=0.0)
            if HAS_BIAS:
                step = softplus(step + bias_d)
            input = step * tl.load(u + at_d, mask=d_mask, other=0.0)
            h = tl.exp(step[:, None] * A) * h + input[:, None] * tl.load(b + at_n, mask=n_mask, other=0.0)[None, :]
        tl.debug_barrier()  # all writes to `scratch` are done
        dA_sum = tl.zeros_like(A)
        dbias_sum = tl.zeros_like(bias_d)
        dskip_sum = tl.zeros_like(skip_d)
        for j in range(last - first):
            t = last - 1 - j
            at_d, at_n = (row * T + t) * D + d, (row * T + t) * N + n
            before = tl.load(scratch + (t - first) * D * N + at_dn, mask=dn_mask, other=0.0)
            u_t = tl.load(u + at_d, mask=d_mask, other=0.0)
            before_softplus = tl.load(delta + at_d, mask=d_mask, other=0.0) + bias_d
            step = softplus(before_softplus) if HAS_BIAS else before_softplus
            b_t = tl.load(b + at_n, mask=n_mask, other=0.0)[None, :]
            c_t = tl.load(c + at_n, mask=n_mask, other=0.0)[None, :]
            dy_t = tl.load(dy + at_d, mask=d_mask, other=0.0)
            a = tl.exp(step[:, None] * A)
            h = a * before + (step * u_t)[:, None] * b_t
            if HAS_GATE:
                z = tl.load(gate + at_d, mask=d_mask, other=0.0)
                sigma = tl.sigmoid(z)
                out = tl.sum(h * c_t, 1) + skip_d * u_t
                tl.store(dgate + at_d, dy_t * out * sigma * (1 + z * (1 - sigma)), mask=d_mask)
                dy_t *= z * sigma
            G = dy_t[:, None] * c_t + P
            tl.store(dc + at_parts + t * N + n, tl.sum(dy_t[:, None] * h, 0), mask=n_mask)
            tl.store(db + at_parts + t * N + n, tl.sum(G * (step * u_t)[:, None], 0), mask=n_mask)
            G_b = tl.sum(G * b_t, 1)
            P = a * G
            P_h = P * before
            dA_sum += P_h * step[:, None]
            dstep = u_t * G_b + tl.sum(P_h * A, 1)
            if HAS_BIAS:
                dstep *= tl.sigmoid(before_softplus)
            dbias_sum += dstep
            dskip_sum += dy_t * u_t
            tl.store(ddelta + at_d, dstep, mask=d_mask)
            tl.store(du + at_d, step * G_b + skip_d * dy_t, mask=d_mask)
        tl.debug_barrier()  # all reads of `scratch` are done
        dA_total += dA_sum.to(tl.float64)
        dbias_total += dbias_sum.to(tl.float64)
        dskip_total += dskip_sum.to(tl.float64)
    tl.store(dA + row * D * N + at_dn, dA_total, mask=dn_mask)
    tl.store(dbias + row * D + d, dbias_total, mask=d_mask)
    tl.store(dskip + row * D + d, dskip_total, mask=d_mask)
    tl.store(dstate + row * D * N + at_dn, P, mask=dn_mask)


@triton.jit
def softplus(x):
    """ln(1 + e^x), accurate where it is small: a quotient corrects the rounding of 1 + e^x."""
    e = tl.exp(tl.minimum(x, 20.0))
    sum_ = 1 + e
    small = tl.where(sum_ == 1, e, tl.log(sum_) * (e / tl.where(sum_ == 1, 1.0, sum_ - 1)))
    return tl.where(x > 20, x, small)
