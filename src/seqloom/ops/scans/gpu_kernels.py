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
    there = n < N
    x, xi = read(state, row * N + n, there, COMPLEX)
    by, byi = read(a, n, there, COMPLEX)
    for t in tl.range(0, T, num_stages=STAGES):
        at = (row * T + t) * N + n
        if not FIXED:
            by, byi = read(a, at, there, COMPLEX)
        more, morei = read(b, at, there, COMPLEX)
        x, xi = product(by, byi, x, xi, COMPLEX)
        x += more
        xi += morei
        write(h, at, x, xi, there, COMPLEX)


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
    there = n < N
    start, end = row * T * N, (row + 1) * T * N
    by, byi = read(a, n, there, COMPLEX)
    g = tl.zeros_like(by)
    gi = tl.zeros_like(by)
    sum_ = tl.zeros([BLOCK], tl.float64)
    sumi = tl.zeros([BLOCK], tl.float64)
    for i in tl.range(0, T, num_stages=STAGES):
        t = T - 1 - i
        at = (row * T + t) * N + n
        if not FIXED:
            by, byi = read(a, at + N, there & (at + N < end), COMPLEX)
        given, giveni = read(dh, at, there, COMPLEX)
        g, gi = product(by, -byi, g, gi, COMPLEX)
        g += given
        gi += giveni
        write(db, at, g, gi, there, COMPLEX)
        before, beforei = read(h, at - N, there & (at >= start + N), COMPLEX)
        first, firsti = read(state, row * N + n, there & (at < start + N), COMPLEX)
        to_a, to_ai = product(g, gi, before + first, -beforei - firsti, COMPLEX)
        if FIXED:
            sum_ += to_a.to(tl.float64)
            sumi += to_ai.to(tl.float64)
        else:
            write(da, at, to_a, to_ai, there, COMPLEX)
    at = row * N + n
    if FIXED:
        write(da, at, sum_, sumi, there, COMPLEX)
    else:
        by, byi = read(a, start + n, there, COMPLEX)
    g, gi = product(by, -byi, g, gi, COMPLEX)
    write(dstate, at, g, gi, there, COMPLEX)


@triton.jit
def read(x, at, there, COMPLEX: tl.constexpr):
    """Real and imaginary part of the numbers at `at`, 0 where not `there`; for real numbers both are the number."""
    if COMPLEX:
        return tl.load(x + 2 * at, mask=there, other=0.0), tl.load(x + 2 * at + 1, mask=there, other=0.0)
    else:  # noqa: RET505  # Triton compiles one of the two
        real = tl.load(x + at, mask=there, other=0.0)
        return real, real


@triton.jit
def write(x, at, real, imaginary, there, COMPLEX: tl.constexpr):
    """Stores numbers at `at`, where `there`."""
    if COMPLEX:
        tl.store(x + 2 * at, real, mask=there)
        tl.store(x + 2 * at + 1, imaginary, mask=there)
    else:
        tl.store(x + at, real, mask=there)


@triton.jit
def product(a, ai, b, bi, COMPLEX: tl.constexpr):
    """Real and imaginary part of a b; for real numbers both are the product."""
    if COMPLEX:
        return a * b - ai * bi, a * bi + ai * b
    else:  # noqa: RET505  # Triton compiles one of the two
        return a * b, a * b
