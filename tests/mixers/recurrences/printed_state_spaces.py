"""Seed 004's formulas of state-space models, evaluated to the letter; `test_printed_formulas` says what is wrong.

One channel; u (T,), A (N, N), B and C (N,). Steps count from 0, as the seed's do.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.ssm import exponential, solved


def bilinear_004_eq_25(A: Array, B: Array, delta: float) -> tuple[Array, Array]:
    eye = np.eye(len(A))
    inverse = solved(eye - delta / 2 * A, eye)
    return inverse @ (eye + delta / 2 * A), inverse @ (delta * B)


def held_004_eq_26(A: Array, B: Array, delta: float) -> tuple[Array, Array]:
    eye = np.eye(len(A))
    return exponential(delta * A), solved(delta * A, eye) @ (exponential(delta * A) - eye) @ (delta * B)


def convolved_004_eq_30_31(u: Array, A: Array, B: Array, C: Array) -> Array:
    """A and B are the stepped ones. B (N, D) and C (D, N) make u (T, D) as well."""
    kernel = [C @ np.linalg.matrix_power(A, lag) @ B for lag in range(len(u))]
    y = np.zeros(u.shape, dtype=np.result_type(u, A, C))
    for t in range(len(u)):
        for lag in range(t + 1):
            y[t] += kernel[lag] @ u[t - lag] if u.ndim == 2 else kernel[lag] * u[t - lag]
    return y


def hippo_004_eq_32(N: int) -> Array:
    """A alone: there is no B."""
    A = np.zeros((N, N))
    for n in range(N):
        for k in range(N):
            if n > k:
                A[n, k] = -((2 * n + 1) ** 0.5) * (2 * k + 1) ** 0.5
            elif n == k:
                A[n, k] = -(n + 1)
    return A


def s6_004_with_a_matrix_for_each_step(x: Array, w: Weights) -> Array:
    """As "L different matrices ... learned independently": w has steps (L, D), inputs and outputs (L, N), a (D, N)."""
    y, h = np.zeros(x.shape), np.zeros(w["a"].shape)
    for t in range(len(x)):
        for c in range(x.shape[1]):
            for n in range(h.shape[1]):
                kept = math.exp(-w["steps"][t, c] * math.exp(w["a"][c, n]))
                h[c, n] = kept * h[c, n] + w["steps"][t, c] * w["inputs"][t, n] * x[t, c]
                y[t, c] += w["outputs"][t, n] * h[c, n]
    return y
