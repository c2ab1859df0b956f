"""S6, the selective state-space model: a state for each channel, whose step, input and output depend on the token.

    B_t = x_t W_B,  C_t = x_t W_C,  Δ_t = softplus(x_t W_R W_Δ + b)             Algorithm 2, section 3.6
    A = -e^{a},  (D, N)                                                         the authors' code
    Ā_t = e^{Δ_t A},  B̄_t = Δ_t B_t                                             the authors' code
    or B̄_t = (Δ_t A)^{-1} (e^{Δ_t A} - 1) Δ_t B_t                               Eq. 4, zero-order hold
    h_t = Ā_t h_{t-1} + B̄_t x_t,  y_t = C_t h_t + D ⊙ x_t,  per channel         Eq. 2

Source: Gu and Dao, Mamba, arXiv:2312.00752; of the rule for B: github.com/state-spaces/mamba, issues 19 and 114.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, product


def selected(row: Array, w: Weights) -> tuple[Array, Array, Array]:
    """Δ_t (D,), B_t and C_t (N,) of a token (D,)."""
    steps = product(product(row, w["w_r"]), w["w_delta"]) + w["b_delta"]
    return np.array([softplus(step) for step in steps]), product(row, w["w_b"]), product(row, w["w_c"])


def scanned(x: Array, w: Weights, held: bool) -> Array:
    y = np.zeros(x.shape)
    h = np.zeros(w["a"].shape)
    for t in range(len(x)):
        delta, B, C = selected(x[t], w)
        for c in range(x.shape[1]):
            y[t, c] = w["D"][c] * x[t, c]
            for n in range(h.shape[1]):
                A = -math.exp(w["a"][c, n])
                kept = math.exp(delta[c] * A)
                new = (kept - 1) / A * B[n] if held else delta[c] * B[n]
                h[c, n] = kept * h[c, n] + new * x[t, c]
                y[t, c] += C[n] * h[c, n]
    return y


def s6(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has a (D, N), w_b, w_c (D, N), w_r (D, R), w_delta (R, D), b_delta and D (D,)."""
    return scanned(x, w, held=False)


def s6_of_eq_4(x: Array, w: Weights) -> Array:
    """With zero-order hold for B as well."""
    return scanned(x, w, held=True)
