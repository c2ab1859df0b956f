"""mLSTM's cell as a sum over all earlier tokens, unscaled, and the block around it.

    C_t = Σ_{j≤t} p_tj v_j k_jᵀ,   n_t = Σ_{j≤t} p_tj k_j,   p_tj = f_{j+1} … f_t i_j
    h_t = C_t q_t / (max(|n_tᵀ q_t|, 1) + 1e-6 max_j p_tj)
    k / √width;  i = exp, f = σ or exp;  q and k of silu(conv(u) + b), v of u, by blocks of N channels each
    y = ((LN_head(h) ∘ gain + skip ∘ silu(conv(u) + b)) ∘ silu(z)) W_down

Source: Beck et al., arXiv:2405.04517, Eq. 19-27 and figure 11; the 1e-6 is in the authors' program, next to numbers
divided by the largest p.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected, sigmoid
from tests.mixers.recurrences.mamba import convolved


def by_blocks(x: Array, w: Array) -> Array:
    """w (blocks, N, N)."""
    N = w.shape[1]
    return np.hstack([projected(x[:, b * N : (b + 1) * N], w[b]) for b in range(len(w))])


def cell(q: Array, k: Array, v: Array, log_i: Array, f: Array) -> Array:
    """One head."""
    T, K = q.shape
    h = np.zeros((T, K))
    for t in range(T):
        C, n = np.zeros((K, K)), np.zeros(K)
        weights = [math.exp(log_i[j]) * math.prod(f[j + 1 : t + 1]) for j in range(t + 1)]
        for j, weight in enumerate(weights):
            C += weight * np.outer(v[j], k[j]) / math.sqrt(K)
            n += weight * k[j] / math.sqrt(K)
        h[t] = C @ q[t] / (max(abs(dot(n, q[t])), 1.0) + 1e-6 * max(weights))
    return h


def mlstm(x: Array, w: Weights, heads: int, forget: str) -> Array:
    """x (T, D) -> (T, D); w["taps"] is (channels, W)."""
    made = projected(x, w["w_up"])
    E = made.shape[1] // 2
    u, z = made[:, :E], made[:, E:]
    c = each(silu, convolved(u, w["taps"].T, w["b_taps"]))
    q, k, v = (by_blocks(given, blocks) for given, blocks in zip((c, c, u), w["qkv"], strict=True))
    gates = projected(np.hstack([q, k, v]), w["w_gates"]) + w["b_gates"]
    f = each(sigmoid if forget == "sigmoid" else math.exp, gates[:, heads:])
    K, y = E // heads, np.zeros((len(x), E))
    for head in range(heads):
        part = slice(head * K, (head + 1) * K)
        h = cell(q[:, part], k[:, part], v[:, part], gates[:, head], f[:, head])
        for t in range(len(x)):
            y[t, part] = (h[t] - h[t].mean()) / math.sqrt(h[t].var() + 1e-5)
    return out((y * w["gain"] + w["skip"] * c) * each(silu, z), w)
