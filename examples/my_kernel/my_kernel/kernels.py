"""The recurrence and its gradients as Triton kernels: a program for each row and block of channels.

A program goes from token to token. Tensors are contiguous, all float32 or all float64. See recurrence.py for the
equations.
"""

import triton
import triton.language as tl


@triton.jit
def forward(a, z, state, h, T, D, BLOCK: tl.constexpr):
    """Every h (B, T, D) of a (D,), z (B, T, D) and the state (B, D)."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    a_d = tl.load(a + d, mask=mask, other=0.0)
    h_t = tl.load(state + row * D + d, mask=mask, other=0.0)
    for t in range(T):
        at = (row * T + t) * D + d
        z_t = tl.load(z + at, mask=mask, other=0.0)
        h_t = tanh(a_d * h_t + z_t)
        tl.store(h + at, h_t, mask=mask)


@triton.jit
def backward(a, h, state, dh, da, dz, dstate, T, D, BLOCK: tl.constexpr):
    """The gradients of a, z and the state; da is (B, D), not yet summed over rows."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    a_d = tl.load(a + d, mask=mask, other=0.0)
    initial = tl.load(state + row * D + d, mask=mask, other=0.0)
    g = tl.zeros_like(a_d)
    sum_ = tl.zeros_like(a_d)
    for i in range(T):
        t = T - 1 - i
        at = (row * T + t) * D + d
        h_t = tl.load(h + at, mask=mask, other=0.0)
        dh_t = tl.load(dh + at, mask=mask, other=0.0)
        before = tl.load(h + at - D, mask=mask & (t > 0), other=0.0)
        before = tl.where(t > 0, before, initial)
        g = (dh_t + a_d * g) * (1 - h_t * h_t)
        sum_ += g * before
        tl.store(dz + at, g, mask=mask)
    tl.store(da + row * D + d, sum_, mask=mask)
    tl.store(dstate + row * D + d, a_d * g, mask=mask)


@triton.jit
def tanh(x):
    """By the sigmoid, which Triton has in both precisions."""
    return 2 * tl.sigmoid(2 * x) - 1
