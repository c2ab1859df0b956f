"""Random feature attention for given random vectors, plain and gated, in its causal form.

    φ(x) = √(1/D) (sin w_1·x, …, sin w_D·x, cos w_1·x, …, cos w_D·x)          Eq. 2 (Rahimi and Recht)
    q, k have length 1; w_i = σ ∘ w̃_i, w̃_i ~ N(0, I)                         section 3.1
    S_t = S_{t-1} + φ(k_t) ⊗ v_t,  z_t = z_{t-1} + φ(k_t)                     Eq. 6
    gated:  g_t = sigmoid(w_g·x_t + b_g),  S_t = g_t S_{t-1} + (1 - g_t) φ(k_t) ⊗ v_t,
            z_t = g_t z_{t-1} + (1 - g_t) φ(k_t)                              Eq. 7
    y_t = φ(q_t)ᵀ S_t / φ(q_t)·z_t,  per head; then y W_out

Source: Peng et al., Random Feature Attention, arXiv:2103.02143.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, cut, dot, out, product, projected, sigmoid


def phi(row: Array, vectors: Array, within: float) -> Array:
    """The 2D features of a row (K,), brought to length 1, under the vectors (D, K)."""
    length = math.sqrt(dot(row, row) + within)
    unit = np.array([number / length for number in row])
    angles = [dot(vector, unit) for vector in vectors]
    scale = math.sqrt(1 / len(vectors))
    return np.array([scale * math.sin(a) for a in angles] + [scale * math.cos(a) for a in angles])


def rfa(x: Array, w: Weights, heads: int, *, within: float = 0.0, floor: float = -math.inf) -> Array:
    """x (T, D) -> (T, D); w has w_q, w_k, w_v, w_out, directions w̃ (H, D, K), sigma (H, K), and may have a gate.

    The gate is gate_w (D, H) and gate_b (H,). The paper has neither of the two numbers: `within` is added to squared
    lengths, and φ(q_t)·z_t is raised to `floor` times what z_t would be if every φ(k) were 1, where it is below.
    """
    Q, K, V = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v"))
    y = np.zeros_like(V)
    for h in range(heads):
        q, k, v, part = cut(Q, h, heads), cut(K, h, heads), cut(V, h, heads), cut(y, h, heads)
        vectors = np.array([w["sigma"][h] * direction for direction in w["directions"][h]])
        S, z = np.zeros((2 * len(vectors), v.shape[1])), np.zeros(2 * len(vectors))
        held = 0.0
        for t in range(len(x)):
            kept, new = 1.0, 1.0
            if "gate_w" in w:
                kept = sigmoid(product(x[t], w["gate_w"])[h] + w["gate_b"][h])
                new = 1 - kept
            held = kept * held + new
            key, query = phi(k[t], vectors, within), phi(q[t], vectors, within)
            for a in range(len(z)):
                z[a] = kept * z[a] + new * key[a]
                for b in range(v.shape[1]):
                    S[a, b] = kept * S[a, b] + new * key[a] * v[t, b]
            for b in range(v.shape[1]):
                part[t, b] = dot(query, S[:, b]) / max(dot(query, z), floor * held)
    return out(y, w)
