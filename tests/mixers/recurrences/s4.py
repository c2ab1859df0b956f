"""S4: a state-space model for each channel whose A is a diagonal less a matrix of rank 1, by its plain recurrence.

    A = Λ - P P*                                        Eq. 6, with the one P of Sashimi, which cannot grow
    Ā = (I - Δ/2 A)^{-1} (I + Δ/2 A),  B̄ = (I - Δ/2 A)^{-1} ΔB                  Eq. 3
    x_t = Ā x_{t-1} + B̄ u_t,  y_t = C x_t + D u_t                               Eq. 1, 3
    out = GELU(y) W_out                                                         as the authors' code

Real inputs make real outputs where Λ, P, B and C come in conjugate pairs: one of each pair is given. The whole A is
then dense over both halves, so that a half reads the other through P P*. C is C itself, not C (I - Ā^L), which is what
the authors' code learns.

Source: Gu, Goel, Ré, Efficiently Modeling Long Sequences with Structured State Spaces, arXiv:2111.00396; of P P*:
Goel, Gu, Donahue, Ré, Sashimi, arXiv:2202.09729.
"""

import numpy as np

from tests.mixers.recurrences.activations import each, gelu
from tests.mixers.recurrences.arithmetic import Array, Weights, out
from tests.mixers.recurrences.ssm import RULES, ssm


def dense(Lambda: Array, P: Array) -> Array:
    """A (N, N) of Λ (N,) and P (N,)."""
    A = np.zeros((len(Lambda), len(Lambda)), dtype=complex)
    for n in range(len(Lambda)):
        for k in range(len(Lambda)):
            A[n, k] = (Lambda[n] if n == k else 0.0) - P[n] * P[k].conjugate()
    return A


def with_conjugates(half: Array) -> Array:
    return np.concatenate([half, half.conj()], -1)


def of_channels(x: Array, w: Weights, rule: str) -> Array:
    """y before the activation."""
    y = np.zeros(x.shape)
    for c in range(x.shape[1]):
        Lambda, P, B, C = (with_conjugates(np.atleast_2d(w[name])[c % len(np.atleast_2d(w[name]))]) for name in "LPBC")
        result = ssm(x[:, c], *RULES[rule](dense(Lambda, P), B, w["delta"][c]), C, w["D"][c])
        assert np.abs(result.imag).max() < 1e-9
        y[:, c] = result.real
    return y


def s4(x: Array, w: Weights, rule: str = "bilinear") -> Array:
    """x (T, D) -> (T, D); w has L (Λ), P, B (D, N/2) or (N/2,), C (D, N/2), complex, D, delta (D,) and w_out."""
    y = out(each(gelu, of_channels(x, w, rule)), w)
    return y + w["b_out"] if "b_out" in w else y
