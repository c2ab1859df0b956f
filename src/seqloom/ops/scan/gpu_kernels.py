"""The recurrence of channels and its gradients as Triton kernels: a program for each row and block of channels.

A program goes from token to token. Tensors are contiguous, all float32 or all float64; a complex number is two adjacent
numbers.
"""

import triton
import triton.language as tl


@triton.jit
def forward(
    a, b, state, h, T, N, FIXED: tl.constexpr, COMPLEX: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    """Every h (B, T, N) of a (N,), if it is FIXED, or (B, T, N), b (B, T, N) and the state (B, N)."""
    row = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = n < N
    x, xi = read(state, row * N + n, mask, COMPLEX)  # h_t
    a_t, a_ti = read(a, n, mask, COMPLEX)
    for t in tl.range(0, T, num_stages=STAGES):
        at = (row * T + t) * N + n
        if not FIXED:
            a_t, a_ti = read(a, at, mask, COMPLEX)
        b_t, b_ti = read(b, at, mask, COMPLEX)
        x, xi = product(a_t, a_ti, x, xi, COMPLEX)
        x += b_t
        xi += b_ti
        write(h, at, x, xi, mask, COMPLEX)


@triton.jit
def backward(
    a,
    h,
    state,
    dh,
    da,
    db,
    dstate,
    T,
    N,
    FIXED: tl.constexpr,
    COMPLEX: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """See `recurrence.gradients`; da of a FIXED a is (B, N) in float64, not yet summed over rows."""
    row = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = n < N
    start, end = row * T * N, (row + 1) * T * N
    a_next, a_nexti = read(a, n, mask, COMPLEX)
    g = tl.zeros_like(a_next)
    gi = tl.zeros_like(a_next)
    sum_ = tl.zeros([BLOCK], tl.float64)
    sumi = tl.zeros([BLOCK], tl.float64)
    for i in tl.range(0, T, num_stages=STAGES):
        t = T - 1 - i
        at = (row * T + t) * N + n
        if not FIXED:
            a_next, a_nexti = read(a, at + N, mask & (at + N < end), COMPLEX)
        dh_t, dh_ti = read(dh, at, mask, COMPLEX)
        g, gi = product(a_next, -a_nexti, g, gi, COMPLEX)
        g += dh_t
        gi += dh_ti
        write(db, at, g, gi, mask, COMPLEX)
        before, beforei = read(h, at - N, mask & (at >= start + N), COMPLEX)  # 0 at the first token
        initial, initiali = read(state, row * N + n, mask & (at < start + N), COMPLEX)  # 0 at the other tokens
        da_t, da_ti = product(g, gi, before + initial, -beforei - initiali, COMPLEX)
        if FIXED:
            sum_ += da_t.to(tl.float64)
            sumi += da_ti.to(tl.float64)
        else:
            write(da, at, da_t, da_ti, mask, COMPLEX)
    at = row * N + n
    if FIXED:
        write(da, at, sum_, sumi, mask, COMPLEX)
    else:
        a_next, a_nexti = read(a, start + n, mask, COMPLEX)
    g, gi = product(a_next, -a_nexti, g, gi, COMPLEX)
    write(dstate, at, g, gi, mask, COMPLEX)


@triton.jit
def read(x, at, mask, COMPLEX: tl.constexpr):
    """Real and imaginary part of the numbers at `at`, 0 outside of `mask`; for real numbers both are the number."""
    if COMPLEX:
        return tl.load(x + 2 * at, mask=mask, other=0.0), tl.load(x + 2 * at + 1, mask=mask, other=0.0)
    else:  # noqa: RET505  # Triton compiles one of the two
        real = tl.load(x + at, mask=mask, other=0.0)
        return real, real


@triton.jit
def write(x, at, real, imaginary, mask, COMPLEX: tl.constexpr):
    """Stores numbers at `at` inside of `mask`."""
    if COMPLEX:
        tl.store(x + 2 * at, real, mask=mask)
        tl.store(x + 2 * at + 1, imaginary, mask=mask)
    else:
        tl.store(x + at, real, mask=mask)


@triton.jit
def product(a, ai, b, bi, COMPLEX: tl.constexpr):
    """Real and imaginary part of a b; for real numbers both are the product."""
    if COMPLEX:
        return a * b - ai * bi, a * bi + ai * b
    else:  # noqa: RET505  # Triton compiles one of the two
        return a * b, a * b
