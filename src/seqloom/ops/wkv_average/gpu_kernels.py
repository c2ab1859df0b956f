"""The walk of `averages` as Triton kernels: a program for each row and block of channels goes from token to token.

Tensors are contiguous, all float32 or all float64; `w` and `u` are always given, zeros where the average has none.
"""

import triton
import triton.language as tl


@triton.jit
def forward(k, v, w, u, mean, log, y, means, logs, T, D, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """See `averages.Walk.forward`."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    rate = tl.load(w + d, mask=mask, other=0.0)
    bonus = tl.load(u + d, mask=mask, other=0.0)
    m = tl.load(mean + row * D + d, mask=mask, other=0.0)
    z = tl.load(log + row * D + d, mask=mask, other=0.0)
    at_state = row * (T + 1) * D + d
    tl.store(means + at_state, m, mask=mask)
    tl.store(logs + at_state, z, mask=mask)
    for t in tl.range(0, T, num_stages=STAGES):
        at = (row * T + t) * D + d
        k_t = tl.load(k + at, mask=mask, other=0.0)
        v_t = tl.load(v + at, mask=mask, other=0.0)
        odds = k_t - z
        tl.store(y + at, interpolate(m, v_t, tl.sigmoid(odds + bonus)), mask=mask)
        m = interpolate(m, v_t, tl.sigmoid(odds + rate))
        z = log_of_sum(z - rate, k_t)
        at_state += D
        tl.store(means + at_state, m, mask=mask)
        tl.store(logs + at_state, z, mask=mask)


@triton.jit
def backward(
    k,
    v,
    w,
    u,
    means,
    logs,
    dy,
    dmeans,
    dlogs,
    dk,
    dv,
    dw,
    du,
    dmean,
    dlog,
    T,
    D,
    HAS_DMEANS: tl.constexpr,
    HAS_DLOGS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """See `averages.Walk.backward`; dw and du (B, D) are float64 and not yet summed over rows."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    rate = tl.load(w + d, mask=mask, other=0.0)
    bonus = tl.load(u + d, mask=mask, other=0.0)
    M = tl.zeros_like(rate)
    N = tl.zeros_like(rate)
    last = (row * (T + 1) + T) * D + d
    if HAS_DMEANS:
        M += tl.load(dmeans + last, mask=mask, other=0.0)
    if HAS_DLOGS:
        N += tl.load(dlogs + last, mask=mask, other=0.0)
    dw_sum = tl.zeros([BLOCK], tl.float64)
    du_sum = tl.zeros([BLOCK], tl.float64)
    for i in tl.range(0, T, num_stages=STAGES):
        t = T - 1 - i
        at = (row * T + t) * D + d
        at_state = (row * (T + 1) + t) * D + d
        odds = tl.load(k + at, mask=mask, other=0.0) - tl.load(logs + at_state, mask=mask, other=0.0)
        difference = tl.load(v + at, mask=mask, other=0.0) - tl.load(means + at_state, mask=mask, other=0.0)
        dy_t = tl.load(dy + at, mask=mask, other=0.0)
        g = tl.sigmoid(odds + rate)
        s = tl.sigmoid(odds + bonus)
        dy_rest = dy_t * (1 - s)
        e = dy_rest * s * difference
        g_M = g * M
        f = g_M * (1 - g) * difference
        tl.store(dv + at, dy_t * s + g_M, mask=mask)
        tl.store(dk + at, e + f + g * N, mask=mask)
        dw_sum += (f - (1 - g) * N).to(tl.float64)
        du_sum += e.to(tl.float64)
        M = (1 - g) * M + dy_rest
        N = (1 - g) * N - e - f
        if HAS_DMEANS:
            M += tl.load(dmeans + at_state, mask=mask, other=0.0)
        if HAS_DLOGS:
            N += tl.load(dlogs + at_state, mask=mask, other=0.0)
    at = row * D + d
    tl.store(dw + at, dw_sum, mask=mask)
    tl.store(du + at, du_sum, mask=mask)
    tl.store(dmean + at, M, mask=mask)
    tl.store(dlog + at, N, mask=mask)


@triton.jit
def interpolate(a, b, share):
    """a + share · (b - a), exactly b at share 1."""
    return tl.where(share < 0.5, a + share * (b - a), b - (1 - share) * (b - a))


@triton.jit
def log_of_sum(a, b):
    """ln(e^a + e^b), NaN where one of them is."""
    larger = tl.where(a > b, a, b)
    smaller = tl.where(a > b, b, a)
    return larger + tl.log(1 + tl.exp(smaller - larger))
