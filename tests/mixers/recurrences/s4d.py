"""S4D: S4 with a diagonal A.

    A_n = -e^{a_n} + i b_n,  B_n = 1                                            section 3, so that Re A < 0
    zero-order hold:  Ā_n = e^{ΔA_n},  B̄_n = (e^{ΔA_n} - 1) / A_n B_n           section 3
    bilinear:         Ā_n = (1 + ΔA_n/2) / (1 - ΔA_n/2),  B̄_n = ΔB_n / (1 - ΔA_n/2)
    x_t = Ā x_{t-1} + B̄ u_t,  y_t = 2 Re Σ_n C_n x_{t,n} + D u_t                section 3, one of each conjugate pair
    out = GELU(y) W_out, or two such layers of which the one gates the other: the authors' code

Source: Gu, Gupta, Goel, Ré, On the Parameterization and Initialization of Diagonal State Space Models,
arXiv:2206.11893.
"""

import cmath
import math

import numpy as np

from tests.mixers.recurrences.activations import each, gelu
from tests.mixers.recurrences.arithmetic import Array, Weights, out


def stepped(A: complex, B: complex, delta: float, rule: str) -> tuple[complex, complex]:
    """Ā and B̄ of one number of the state."""
    if rule == "zoh":
        return cmath.exp(delta * A), (cmath.exp(delta * A) - 1) / A * B
    assert rule == "bilinear"
    return (1 + delta * A / 2) / (1 - delta * A / 2), delta * B / (1 - delta * A / 2)


def of_channels(x: Array, w: Weights, rule: str) -> Array:
    """y before the activation."""
    y = np.zeros(x.shape)
    for c in range(x.shape[1]):
        for t in range(len(x)):
            y[t, c] = w["D"][c] * x[t, c]
        for n in range(w["C"].shape[1]):
            A = complex(-math.exp(w["a"][c, n]), w["b"][c, n])
            kept, new = stepped(A, w["B"][c, n] if "B" in w else 1.0, math.exp(w["log_delta"][c]), rule)
            state = 0j
            for t in range(len(x)):
                state = kept * state + new * x[t, c]
                y[t, c] += 2 * (w["C"][c, n] * state).real
    return y


def s4d(x: Array, w: Weights, rule: str) -> Array:
    """x (T, D) -> (T, D); w has a, b (D, N/2), C (D, N/2) complex, log_delta, D (D,), w_out; may have B and b_out."""
    y = out(each(gelu, of_channels(x, w, rule)), w)
    return y + w["b_out"] if "b_out" in w else y
