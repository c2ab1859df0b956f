"""The linear Transformer, one step after the other.

    φ(x) = elu(x) + 1                                            Eq. 7
    s_0 = 0,  z_0 = 0                                            Eq. 16, 17
    s_t = s_{t-1} + φ(x_t W_K) (x_t W_V)ᵀ                        Eq. 18
    z_t = z_{t-1} + φ(x_t W_K)                                   Eq. 19
    y_t = φ(x_t W_Q)ᵀ s_t / φ(x_t W_Q)ᵀ z_t                      Eq. 20, per head; then y W_out

Source: Katharopoulos, Vyas, Pappas, Fleuret, Transformers are RNNs, arXiv:2006.16236, sections 3.2 and 3.4.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, cut, dot, out, projected


def phi(row: Array) -> Array:
    features = np.zeros(len(row))
    for c in range(len(row)):
        features[c] = row[c] + 1 if row[c] > 0 else math.exp(row[c])
    return features


def linear(x: Array, w: Weights, heads: int, *, below: float = 0.0) -> Array:
    """x (T, D) -> (T, D); w has w_q, w_k, w_v, w_out. `below` is added to the denominator, which the paper does not."""
    Q, K, V = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v"))
    y = np.zeros_like(V)
    for h in range(heads):
        q, k, v, part = cut(Q, h, heads), cut(K, h, heads), cut(V, h, heads), cut(y, h, heads)
        s, z = np.zeros((k.shape[1], v.shape[1])), np.zeros(k.shape[1])
        for t in range(len(x)):
            key, query = phi(k[t]), phi(q[t])
            for a in range(len(key)):
                z[a] += key[a]
                for b in range(v.shape[1]):
                    s[a, b] += key[a] * v[t, b]
            for b in range(v.shape[1]):
                part[t, b] = dot(query, s[:, b]) / (dot(query, z) + below)
    return out(y, w)
