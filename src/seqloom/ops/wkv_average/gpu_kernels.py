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
    there = d < D
    rate = tl.load(w + d, mask=there, other=0.0)
    bonus = tl.load(u + d, mask=there, other=0.0)
    m = tl.load(mean + row * D + d, mask=there, other=0.0)
    z = tl.load(log + row * D + d, mask=there, other=0.0)
    kept = row * (T + 1) * D + d
    tl.store(means + kept, m, mask=there)
    tl.store(logs + kept, z, mask=there)
    for t in tl.range(0, T, num_stages=STAGES):
        at = (row * T + t) * D + d
        key = tl.load(k + at, mask=there, other=0.0)
        value = tl.load(v + at, mask=there, other=0.0)
        odds = key - z
        tl.store(y + at, between(m, value, tl.sigmoid(odds + bonus)), mask=there)
        m = between(m, value, tl.sigmoid(odds + rate))
        z = log_of_sum(z - rate, key)
        kept += D
        tl.store(means + kept, m, mask=there)
        tl.store(logs + kept, z, mask=there)


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
    TO_MEANS: tl.constexpr,
    TO_LOGS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """See `averages.Walk.backward`; dw and du (B, D) are float64 and not yet summed over rows."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = d < D
    rate = tl.load(w + d, mask=there, other=0.0)
    bonus = tl.load(u + d, mask=there, other=0.0)
    M = tl.zeros_like(rate)
    N = tl.zeros_like(rate)
    last = (row * (T + 1) + T) * D + d
    if TO_MEANS:
        M += tl.load(dmeans + last, mask=there, other=0.0)
    if TO_LOGS:
        N += tl.load(dlogs + last, mask=there, other=0.0)
    to_w = tl.zeros([BLOCK], tl.float64)
    to_u = tl.zeros([BLOCK], tl.float64)
    for i in tl.range(0, T, num_stages=STAGES):
        t = T - 1 - i
        at = (row * T + t) * D + d
        kept = (row * (T + 1) + t) * D + d
        odds = tl.load(k + at, mask=there, other=0.0) - tl.load(logs + kept, mask=there, other=0.0)
        away = tl.load(v + at, mask=there, other=0.0) - tl.load(means + kept, mask=there, other=0.0)
        slope = tl.load(dy + at, mask=there, other=0.0)
        g = tl.sigmoid(odds + rate)
        s = tl.sigmoid(odds + bonus)
        passed = slope * (1 - s)
        e = passed * s * away
        received = g * M
        f = received * (1 - g) * away
        tl.store(dv + at, slope * s + received, mask=there)
        tl.store(dk + at, e + f + g * N, mask=there)
        to_w += (f - (1 - g) * N).to(tl.float64)
        to_u += e.to(tl.float64)
        M = (1 - g) * M + passed
        N = (1 - g) * N - e - f
        if TO_MEANS:
            M += tl.load(dmeans + kept, mask=there, other=0.0)
        if TO_LOGS:
            N += tl.load(dlogs + kept, mask=there, other=0.0)
    at = row * D + d
    tl.store(dw + at, to_w, mask=there)
    tl.store(du + at, to_u, mask=there)
    tl.store(dmean + at, M, mask=there)
    tl.store(dlog + at, N, mask=there)


@triton.jit
def between(a, b, share):
    """a + share · (b - a), exactly b at share 1."""
    return tl.where(share < 0.5, a + share * (b - a), b - (1 - share) * (b - a))


@triton.jit
def log_of_sum(a, b):
    """ln(e^a + e^b), NaN where one of them is."""
    more = tl.where(a > b, a, b)
    less = tl.where(a > b, b, a)
    return more + tl.log(1 + tl.exp(less - more))
