"""Multi-scale retention in its recurrent form, with complex numbers.

    q_n = (x_n W_Q) e^{inθ},  k_n = (x_n W_K) e^{-inθ},  v_n = x_n W_V        Eq. 3, 5: two real channels are one number
    S_n = γ S_{n-1} + k_nᵀ v_n,  o_n = Re(q_n S_n) / √d                       Eq. 6; section 2.1, normalisation of QKᵀ
    γ_h = 1 - 2^{-5-h},  h = 0 … H-1                                          Eq. 8
    Y = GroupNorm_H(concat_h(o)),  y = (swish(x W_G) ⊙ Y) W_O                 Eq. 8

The paper leaves three things open: θ is xPos's, 10000^{-2i/d}; GroupNorm's ε; which two channels of a head are one
number: i and i + d/2 here. The authors' code takes 2i and 2i+1, the same up to the order of W_Q's and W_K's columns,
and θ = 10000^{-i/(d/2-1)}. QKᵀ is divided by √d; the two further normalisations of section 2.1 cancel in GroupNorm
with ε = 0 and depend on ε otherwise: the recurrent form (Eq. 6) has neither.

Source: Sun et al., Retentive Network, arXiv:2307.08621; θ: Sun et al., arXiv:2212.10554.
"""

import cmath
import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, cut, out, projected, sigmoid


def turned(pairs: Array, n: int, sign: int) -> list[complex]:
    """A head's channels at position n as complex numbers, turned by ±nθ."""
    half = len(pairs) // 2
    return [complex(pairs[i], pairs[i + half]) * cmath.exp(sign * 1j * n * 10000 ** (-i / half)) for i in range(half)]


def normalised(row: Array, eps: float) -> Array:
    """One group of GroupNorm at one position: mean 0 and variance 1."""
    mean = sum(row) / len(row)
    variance = sum((value - mean) ** 2 for value in row) / len(row)
    return np.array([(value - mean) / math.sqrt(variance + eps) for value in row])


def retention(x: Array, w: Weights, heads: int, eps: float) -> Array:
    """x (T, D) -> (T, D); w has w_q, w_k, w_v, w_g, w_out and may have GroupNorm's gain and shift."""
    Q, K, V, G = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v", "w_g"))
    Y = np.zeros_like(V)
    for h in range(heads):
        q, k, v, part = cut(Q, h, heads), cut(K, h, heads), cut(V, h, heads), cut(Y, h, heads)
        gamma, d = 1 - 2.0 ** (-5 - h), q.shape[1]
        S = np.zeros((d // 2, v.shape[1]), dtype=complex)
        for n in range(len(x)):
            # Re(a b̄) of two complex numbers is the dot product of the pairs: the key enters as its conjugate.
            query = turned(q[n], n, 1)
            key = [number.conjugate() for number in turned(k[n], n, 1)]
            for b in range(v.shape[1]):
                o = 0.0
                for a in range(d // 2):
                    S[a, b] = gamma * S[a, b] + key[a] * v[n, b]
                    o += (query[a] * S[a, b]).real
                part[n, b] = o / math.sqrt(d)
            part[n] = normalised(part[n], eps)
    for n in range(len(x)):
        for c in range(Y.shape[1]):
            gain = w["gain"][c] if "gain" in w else 1.0
            shift = w["shift"][c] if "shift" in w else 0.0
            Y[n, c] = (gain * Y[n, c] + shift) * G[n, c] * sigmoid(G[n, c])
    return out(Y, w)
