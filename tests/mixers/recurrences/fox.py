"""Forgetting attention, query by query, with the product of the gates between a query and a key.

    o_i = Σ_{j≤i} F_ij e^{q_i·k_j/√d} v_j / Σ_{j≤i} F_ij e^{q_i·k_j/√d}
    F_ij = Π_{l=j+1}^{i} f_l,   f_l = σ(w_fᵀ x_l + b_f)

Source: Lin et al., Forgetting Transformer, arXiv:2503.02130, section 3.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, cut, dot, out, projected, sigmoid


def fox(x: Array, w: Weights, heads: int) -> Array:
    """x (T, D) -> (T, D)."""
    (T, D), y = x.shape, np.zeros_like(x)
    made, logits = projected(x, w["w_qkv"]), projected(x, w["w_f"]) + w["b_f"]
    for h in range(heads):
        q, k, v = (cut(made[:, n * D : (n + 1) * D], h, heads) for n in range(3))
        o, f = cut(y, h, heads), [sigmoid(number) for number in logits[:, h]]
        for i in range(T):
            powers = [
                math.prod(f[j + 1 : i + 1]) * math.exp(dot(q[i], k[j]) / math.sqrt(q.shape[1])) for j in range(i + 1)
            ]
            for j, power in enumerate(powers):
                o[i] += power / sum(powers) * v[j]
    return out(y, w)
