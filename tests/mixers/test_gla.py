"""Gated linear attention in its recurrent form, number by number.

    α_t = σ(x_t W_α1 W_α2 + b)^{1/τ},   S_t = diag(α_t) S_{t-1} + k_tᵀ v_t,   o_t = q_t S_t / √d_k        per head
    out = (o / √(mean of o² + ε) ∘ gain ∘ swish(x W_r)) W_O

Source: Yang et al., arXiv:2312.06635, section 4; norm and gate as in the authors' program.
"""

import math

import numpy as np
import pytest

from tests.mixers.equation import PROJECTIONS, Case, Recurrence, check_equation
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, out, projected, sigmoid


def gla(x: Array, w: Weights, heads: int, tau: float, eps: float) -> Array:
    """x (T, D) -> (T, D)."""
    Q, K, V, R = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v", "w_r"))
    logits = projected(projected(x, w["w_a1"]), w["w_a2"]) + w["b_a"]
    Y = np.zeros_like(V)
    for h in range(heads):
        q, k, v, a, y = (cut(each, h, heads) for each in (Q, K, V, logits, Y))
        S = np.zeros((q.shape[1], v.shape[1]))
        for t in range(len(x)):
            for c in range(q.shape[1]):
                alpha = sigmoid(a[t, c]) ** (1 / tau)
                for n in range(v.shape[1]):
                    S[c, n] = alpha * S[c, n] + k[t, c] * v[t, n]
            for n in range(v.shape[1]):
                y[t, n] = sum(q[t, c] * S[c, n] for c in range(q.shape[1])) / math.sqrt(q.shape[1])
            root = math.sqrt(sum(number**2 for number in y[t]) / len(y[t]) + eps)
            for n in range(v.shape[1]):
                y[t, n] = y[t, n] / root * w["gain"][n]
    for t in range(len(x)):
        for c in range(Y.shape[1]):
            Y[t, c] *= R[t, c] * sigmoid(R[t, c])
    return out(Y, w)


def gla_of(heads: int, tau: float = 16.0) -> Recurrence:
    return lambda x, w: gla(x, w, heads, tau, eps=1e-5)


LETTERS = {
    **{**PROJECTIONS, "w_g.weight": "w_r", "w_o.weight": "w_out", "norm.weight": "gain"},
    **{"w_1.weight": "w_a1", "w_2.weight": "w_a2", "w_2.bias": "b_a"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "gla, 1 head": ({"kind": "gla", "heads": 1}, gla_of(1)),
    "gla, 2 heads": ({"kind": "gla", "heads": 2, "rank": 3, "tau": 1.0}, gla_of(2, 1.0)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_gla_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
