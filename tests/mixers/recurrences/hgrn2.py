"""HGRN2 as a recurrence, number by number.

    g_t = β + (1 - β) σ(x_t W_f),   q_t = silu(x_t W_q),   i_t = x_t W_i
    S_t = diag(g_t) S_{t-1} + (1 - g_t)ᵀ i_t,   o_t = q_t S_t / √K                                       per head
    out = (o / √(mean of o² + 1e-5) ∘ gain) W_o,   over all channels
    β^l = Σ_{j≤l} softmax_j(Γ) - softmax_0(Γ)                                                           of layer l

Source: Qin et al., arXiv:2404.07904, section 3; β of Qin et al., HGRN, arXiv:2311.04823, section 3.2.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, out, projected, sigmoid


def bound(table: Array, layer: int) -> Array:
    """β of a layer, from a table (layers, D)."""
    beta = np.zeros(table.shape[1])
    for c in range(table.shape[1]):
        powers = [math.exp(number) for number in table[:, c]]
        beta[c] = sum(power / sum(powers) for power in powers[1 : layer + 1])
    return beta


def hgrn2(x: Array, w: Weights, heads: int, beta: Array) -> Array:
    """x (T, D) -> (T, D)."""
    queries, inputs, logits = each(silu, projected(x, w["w_q"])), projected(x, w["w_i"]), projected(x, w["w_f"])
    y, K = np.zeros_like(x), x.shape[1] // heads
    for h in range(heads):
        q, i, f, low, o = (cut(part, h, heads) for part in (queries, inputs, logits, beta[None], y))
        S = np.zeros((K, K))
        for t in range(len(x)):
            for c in range(K):
                gate = low[0, c] + (1 - low[0, c]) * sigmoid(f[t, c])
                S[c] = gate * S[c] + (1 - gate) * i[t]
            o[t] = q[t] @ S / math.sqrt(K)
    normed = [row / math.sqrt(sum(number**2 for number in row) / len(row) + 1e-5) * w["gain"] for row in y]
    return out(np.stack(normed), w)
