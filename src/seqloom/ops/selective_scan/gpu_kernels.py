"""The selective scan and its gradients as Triton kernels: a program for each row and block of channels, token by token.

Tensors are contiguous, all float32 or all float64; a missing tensor is an arbitrary pointer that is not read. A block
of channels has its states (channels, N) in registers. If it LEARNS, forward saves the state before each chunk of
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
    BEGUN: tl.constexpr,
    SOFT: tl.constexpr,
    SKIPS: tl.constexpr,
    GATED: tl.constexpr,
    ENDS: tl.constexpr,
    LEARNS: tl.constexpr,
    STATES: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """y (B, T, D) up to the end of each row, the state after it (B, D, N), and marks (B, chunks, D, N)."""
    row = tl.program_id(0).to(tl.int64)
    d, n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATES)
    here, read = d < D, n < N
    entry, both = d[:, None] * N + n[None, :], here[:, None] & read[None, :]
    A = -tl.exp(tl.load(log_rate + entry, mask=both, other=0.0))
    h = tl.zeros_like(A)
    if BEGUN:
        h += tl.load(state + row * D * N + entry, mask=both, other=0.0)
    raised = tl.zeros([BLOCK], A.dtype)
    passed = tl.zeros([BLOCK], A.dtype)
    if SOFT:
        raised += tl.load(bias + d, mask=here, other=0.0)
    if SKIPS:
        passed += tl.load(skip + d, mask=here, other=0.0)
    end = tl.load(lengths + row) if ENDS else T
    marks += row * tl.cdiv(T, CHUNK) * D * N
    for first in range(0, end, CHUNK):
        if LEARNS:
            tl.store(marks + entry, h, mask=both)
            marks += D * N
        for t in tl.range(first, tl.minimum(first + CHUNK, end), num_stages=STAGES):
            at, of = (row * T + t) * D + d, (row * T + t) * N + n
            x = tl.load(u + at, mask=here, other=0.0)
            width = tl.load(delta + at, mask=here, other=0.0)
            if SOFT:
                width = softplus(width + raised)
            new = (width * x)[:, None] * tl.load(b + of, mask=read, other=0.0)[None, :]
            h = tl.exp(width[:, None] * A) * h + new
            out = tl.sum(h * tl.load(c + of, mask=read, other=0.0)[None, :], 1)
            if SKIPS:
                out += passed * x
            if GATED:
                z = tl.load(gate + at, mask=here, other=0.0)
                out *= z * tl.sigmoid(z)
            tl.store(y + at, out, mask=here)
    tl.store(new_state + row * D * N + entry, h, mask=both)


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
    SOFT: tl.constexpr,
    SKIPS: tl.constexpr,
    GATED: tl.constexpr,
    ENDS: tl.constexpr,
    REACHED: tl.constexpr,
    STATES: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The gradients.

    DA, dbias, dskip (float64) are not yet summed over rows, db, dc not yet over blocks of channels.
    """
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    d, n = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATES)
    here, read = d < D, n < N
    entry, both = d[:, None] * N + n[None, :], here[:, None] & read[None, :]
    A = -tl.exp(tl.load(log_rate + entry, mask=both, other=0.0))
    reached = tl.zeros_like(A)
    if REACHED:
        reached += tl.load(dnew_state + row * D * N + entry, mask=both, other=0.0)
    raised = tl.zeros([BLOCK], A.dtype)
    passed = tl.zeros([BLOCK], A.dtype)
    if SOFT:
        raised += tl.load(bias + d, mask=here, other=0.0)
    if SKIPS:
        passed += tl.load(skip + d, mask=here, other=0.0)
    end = tl.load(lengths + row) if ENDS else T
    scratch += row * CHUNK * D * N
    parts = (block * tl.num_programs(0) + row) * T * N
    all_A = tl.zeros([BLOCK, STATES], tl.float64)
    all_bias = tl.zeros([BLOCK], tl.float64)
    all_skip = tl.zeros([BLOCK], tl.float64)
    chunks = tl.cdiv(end, CHUNK)
    for i in range(chunks):
        first = (chunks - 1 - i) * CHUNK
        last = tl.minimum(first + CHUNK, end)
        mark = row * tl.cdiv(T, CHUNK) + chunks - 1 - i
        h = tl.load(marks + mark * D * N + entry, mask=both, other=0.0)
        for t in tl.range(first, last, num_stages=STAGES):
            at, of = (row * T + t) * D + d, (row * T + t) * N + n
            tl.store(scratch + (t - first) * D * N + entry, h, mask=both)
            width = tl.load(delta + at, mask=here, other=0.0)
            if SOFT:
                width = softplus(width + raised)
            new = width * tl.load(u + at, mask=here, other=0.0)
            h = tl.exp(width[:, None] * A) * h + new[:, None] * tl.load(b + of, mask=read, other=0.0)[None, :]
        tl.debug_barrier()  # all writes to `scratch` are done
        to_A = tl.zeros_like(A)
        to_bias = tl.zeros_like(raised)
        to_skip = tl.zeros_like(passed)
        for j in range(last - first):
            t = last - 1 - j
            at, of = (row * T + t) * D + d, (row * T + t) * N + n
            before = tl.load(scratch + (t - first) * D * N + entry, mask=both, other=0.0)
            x = tl.load(u + at, mask=here, other=0.0)
            raw = tl.load(delta + at, mask=here, other=0.0) + raised
            width = softplus(raw) if SOFT else raw
            comes = tl.load(b + of, mask=read, other=0.0)[None, :]
            goes = tl.load(c + of, mask=read, other=0.0)[None, :]
            slope = tl.load(dy + at, mask=here, other=0.0)
            a = tl.exp(width[:, None] * A)
            h = a * before + (width * x)[:, None] * comes
            if GATED:
                z = tl.load(gate + at, mask=here, other=0.0)
                open_ = tl.sigmoid(z)
                out = tl.sum(h * goes, 1) + passed * x
                tl.store(dgate + at, slope * out * open_ * (1 + z * (1 - open_)), mask=here)
                slope *= z * open_
            to_h = slope[:, None] * goes + reached
            tl.store(dc + parts + t * N + n, tl.sum(slope[:, None] * h, 0), mask=read)
            tl.store(db + parts + t * N + n, tl.sum(to_h * (width * x)[:, None], 0), mask=read)
            along = tl.sum(to_h * comes, 1)
            reached = a * to_h
            moved = reached * before
            to_A += moved * width[:, None]
            to_width = x * along + tl.sum(moved * A, 1)
            if SOFT:
                to_width *= tl.sigmoid(raw)
            to_bias += to_width
            to_skip += slope * x
            tl.store(ddelta + at, to_width, mask=here)
            tl.store(du + at, width * along + passed * slope, mask=here)
        tl.debug_barrier()  # all reads of `scratch` are done
        all_A += to_A.to(tl.float64)
        all_bias += to_bias.to(tl.float64)
        all_skip += to_skip.to(tl.float64)
    tl.store(dA + row * D * N + entry, all_A, mask=both)
    tl.store(dbias + row * D + d, all_bias, mask=here)
    tl.store(dskip + row * D + d, all_skip, mask=here)
    tl.store(dstate + row * D * N + entry, reached, mask=both)


@triton.jit
def softplus(x):
    """ln(1 + e^x), accurate where it is small: a quotient corrects the rounding of 1 + e^x."""
    e = tl.exp(tl.minimum(x, 20.0))
    more = 1 + e
    small = tl.where(more == 1, e, tl.log(more) * (e / tl.where(more == 1, 1.0, more - 1)))
    return tl.where(x > 20, x, small)
