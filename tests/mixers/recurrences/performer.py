"""Performer's softmax attention (FAVOR+) for given random vectors, in its causal form.

    φ(x) = e^{-|x|²/2} / √m · (e^{ω_1·x}, …, e^{ω_m·x})                       Eq. 5 with Lemma 1's h, f and l = 1
    q, k are divided by K^{1/4} first, so that E φ(q)·φ(k) = e^{q·k/√K}       section 2.1
    y_t = Σ_{j≤t} (φ(q_t)·φ(k_j)) v_j / Σ_{j≤t} φ(q_t)·φ(k_j)                 Eq. 4 with section 2.5.1's prefix sums
    per head of K channels; then y W_out

With the hyperbolic features, φ(x) = e^{-|x|²/2} / √(2m) · (e^{ω_i·x}, e^{-ω_i·x}); with ReLU (section 4),
φ(x) = 1/√m · max(ω_i·x, 0).

Source: Choromanski et al., Rethinking Attention with Performers, arXiv:2009.14794.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, cut, dot, out, projected


def phi(row: Array, omega: Array) -> Array:
    """The m positive features of a row (K,) under the vectors omega (m, K)."""
    scaled = np.array([number / len(row) ** 0.25 for number in row])
    half = dot(scaled, scaled) / 2
    return np.array([math.exp(dot(vector, scaled) - half) / math.sqrt(len(omega)) for vector in omega])


def hyperbolic(row: Array, omega: Array) -> Array:
    both = [phi(row, omega), phi(row, -omega)]
    return np.array([feature / math.sqrt(2) for features in both for feature in features])


def rectified(row: Array, omega: Array, floor: float = 0.0) -> Array:
    """Performer-ReLU: f = max(·, 0) and h = 1, after the same scaling.

    The sums may be 0 where no feature is on: the authors' code adds a `floor` of 1e-3 to each.
    """
    scaled = np.array([number / len(row) ** 0.25 for number in row])
    return np.array([max(dot(vector, scaled), 0.0) / math.sqrt(len(omega)) + floor for vector in omega])


def averaged(queries: list[Array], keys: list[Array], v: Array) -> Array:
    """Eq. 4 for one head: the running sums over keys."""
    S, z = np.zeros((len(keys[0]), v.shape[1])), np.zeros(len(keys[0]))
    y = np.zeros_like(v)
    for t in range(len(v)):
        for a in range(len(z)):
            z[a] += keys[t][a]
            for b in range(v.shape[1]):
                S[a, b] += keys[t][a] * v[t, b]
        for b in range(v.shape[1]):
            y[t, b] = dot(queries[t], S[:, b]) / dot(queries[t], z)
    return y


def performer(x: Array, w: Weights, heads: int, features: Callable[[Array, Array], Array] = phi) -> Array:
    """x (T, D) -> (T, D); w has w_q, w_k, w_v, w_out and omega, (m, K) or for each head (H, m, K)."""
    Q, K, V = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v"))
    y = np.zeros_like(V)
    for h in range(heads):
        omega = w["omega"][h] if w["omega"].ndim == 3 else w["omega"]
        q, k = ([features(row, omega) for row in cut(part, h, heads)] for part in (Q, K))
        cut(y, h, heads)[:] = averaged(q, k, cut(V, h, heads))
    return out(y, w)
