"""Multi-head latent attention, query by query, with keys and values of every token rebuilt.

    c^KV_t = norm(W^DKV h_t),  [k^C_t; v^C_t] = W^UKV c^KV_t                                    Eq. 9-11
    c^Q_t = norm(W^DQ h_t),  q^C_t = W^UQ c^Q_t                                                 Eq. 12, 13
    q^R = RoPE(W^QR c^Q),  k^R = RoPE(W^KR h),  one k^R for all heads                           Eq. 14, 15
    o_{t,i} = Σ_j softmax_j(q_{t,i}ᵀ k_{j,i} / √(d_h + d_h^R)) v^C_{j,i},   q = [q^C; q^R], k = [k^C; k^R]   Eq. 16-18

RoPE turns the pair (2c, 2c+1) by t base^{-2c/R}.

Source: DeepSeek-AI, DeepSeek-V2, arXiv:2405.04434, section 2.1.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected


def normed(x: Array, gain: Array) -> Array:
    return np.stack([row / math.sqrt(sum(number**2 for number in row) / len(row) + 1e-6) * gain for row in x])


def turned(row: Array, t: int, base: float) -> Array:
    y, R = np.zeros_like(row), len(row)
    for c in range(R // 2):
        angle = t * base ** (-2 * c / R)
        y[2 * c] = row[2 * c] * math.cos(angle) - row[2 * c + 1] * math.sin(angle)
        y[2 * c + 1] = row[2 * c + 1] * math.cos(angle) + row[2 * c] * math.sin(angle)
    return y


def mla(x: Array, w: Weights, heads: int, base: float | None) -> Array:
    """x (T, D) -> (T, D); without a base nothing is turned."""
    T, R, K = len(x), w["w_r"].shape[1], x.shape[1] // heads
    small = normed(projected(x, w["w_d"]), w["gain_d"]) if "w_d" in w else x
    rebuilt = projected(normed(projected(x, w["w_c"]), w["gain"]), w["w_kv"]).reshape(T, heads, 2 * K)
    queries, shared = projected(small, w["w_q"]).reshape(T, heads, K + R), projected(x, w["w_r"])
    if base is not None:
        shared = np.stack([turned(row, t, base) for t, row in enumerate(shared)])
        for t in range(T):
            for h in range(heads):
                queries[t, h, K:] = turned(queries[t, h, K:], t, base)
    y = np.zeros((T, heads, K))
    for h in range(heads):
        for t in range(T):
            keys = [np.concatenate([rebuilt[j, h, :K], shared[j]]) for j in range(t + 1)]
            powers = [math.exp(dot(queries[t, h], key) / math.sqrt(K + R)) for key in keys]
            for j, power in enumerate(powers):
                y[t, h] += power / sum(powers) * rebuilt[j, h, K:]
    return out(y.reshape(T, -1), w)
