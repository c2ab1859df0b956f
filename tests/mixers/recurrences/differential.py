"""Differential attention, query by query.

    1   [Q_1; Q_2] = X W^Q, [K_1; K_2] = X W^K per head,   λ = e^{λ_q1·λ_k1} - e^{λ_q2·λ_k2} + λ_init       Eq. 1, 2
        head = (1 - λ_init) LN((softmax(Q_1 K_1ᵀ/√d) - λ softmax(Q_2 K_2ᵀ/√d)) V),   LN the RMS norm        Eq. 3
    2   head = (softmax(Q_1 Kᵀ/√d) - σ(x w_λ) softmax(Q_2 Kᵀ/√d)) V

Source: Ye et al., Differential Transformer, arXiv:2410.05258, section 2; version 2 of the authors' program.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected, sigmoid


def shares(q: Array, k: Array, t: int) -> list[float]:
    """The softmax of query t."""
    powers = [math.exp(dot(q[t], k[j]) / math.sqrt(q.shape[1])) for j in range(t + 1)]
    return [power / sum(powers) for power in powers]


def columns(x: Array, number: int, width: int) -> Array:
    return x[:, number * width : (number + 1) * width]


def differential(x: Array, w: Weights, heads: int, version: int, start: float = 0.2) -> Array:
    """x (T, D) -> (T, D); `start` is λ_init."""
    T, D = x.shape
    queries, keys, values = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v"))
    V, K = D // heads, D // (2 * heads) if version == 1 else D // heads
    y = np.zeros((T, D))
    for h in range(heads):
        v = columns(values, h, V)
        q1, q2 = (columns(queries, 2 * h + n, K) for n in range(2))
        k1, k2 = (columns(keys, 2 * h + n if version == 1 else h, K) for n in range(2))
        for t in range(T):
            if version == 1:
                of_first, of_second = (math.exp(dot(*pair)) for pair in w["vectors"])
                share = of_first - of_second + start
            else:
                share = sigmoid(dot(x[t], w["w_share"][:, h]))
            first, second = shares(q1, k1, t), shares(q2, k2, t)
            head = sum((first[j] - share * second[j]) * v[j] for j in range(t + 1))
            if version == 1:
                root = math.sqrt(sum(number**2 for number in head) / V + 1e-5)
                head = (1 - start) * head / root * w["gain"]
            y[t, h * V : (h + 1) * V] = head
    return out(y, w)
