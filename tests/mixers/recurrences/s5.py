"""S5: one state-space model for all channels at once.

    x_t = Λ̄ x_{t-1} + B̄ u_t,  y_t = C̃ x_t + D ⊙ u_t,  B̃ (P, D), C̃ (D, P)          section 3.1, Eq. 5
    zero-order hold:  Λ̄ = e^{ΛΔ},  B̄ = Λ^{-1} (Λ̄ - I) B̃,  Δ for each number of the state          section 3.2, Eq. 6
    y_t = 2 Re(C̃ x_t) + D ⊙ u_t where P/2 numbers stand for P in conjugate pairs                  section 3.2
    out = GELU(y) ⊙ σ(GELU(y) W)                                                                          appendix

Source: Smith, Warrington, Linderman, Simplified State Space Layers for Sequence Modeling, arXiv:2208.04933.
"""

import cmath
import math

import numpy as np

from tests.mixers.recurrences.activations import each, gelu
from tests.mixers.recurrences.arithmetic import Array, Weights, projected, sigmoid


def of_state(x: Array, w: Weights) -> Array:
    """y before the activation."""
    half, width = w["B"].shape
    state, y = np.zeros(half, dtype=complex), np.zeros((len(x), width))
    for t in range(len(x)):
        for n in range(half):
            kept = cmath.exp(w["L"][n] * math.exp(w["log_delta"][n]))
            state[n] *= kept
            for c in range(width):
                state[n] += (kept - 1) / w["L"][n] * w["B"][n, c] * x[t, c]
        for c in range(width):
            y[t, c] = w["D"][c] * x[t, c]
            for n in range(half):
                y[t, c] += 2 * (w["C"][c, n] * state[n]).real
    return y


def s5(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has L (Λ) and log_delta (P/2,), B (P/2, D), C (D, P/2), complex but the step, D, w_gate."""
    y = each(gelu, of_state(x, w))
    gate = projected(y, w["w_gate"]) + w.get("b_gate", 0.0)
    return y * each(sigmoid, gate)
