"""The gated delta rule as a recurrence over matrices S (V, K), as the paper writes it, number by number.

    S_t = S_{t-1} (α_t (I - β_t k_t k_tᵀ)) + β_t v_t k_tᵀ,   o_t = S_t q_t / √K                        Eq. 10
    q, k, v = silu(conv(x W)),  q and k over their length,  α = exp(-A softplus(x W_a + b_a)),  β = c σ(x W_b)
    out = (o / √(mean of o² + ε) ∘ gain ∘ silu(x W_g)) W_o

Source: Yang et al., arXiv:2412.06464, section 3.1; A and b_a as in flash-linear-attention.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each, silu, softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid
from tests.mixers.recurrences.mamba import convolved


def unit(x: Array) -> Array:
    return x / math.sqrt(sum(number**2 for number in x) + 1e-6)


def delta_rule(q: Array, k: Array, v: Array, alpha: Array, beta: Array) -> Array:
    """One head: q, k (T, K), v (T, V), alpha (T, K) of each channel of the keys, beta (T,)."""
    T, K = q.shape
    S, y = np.zeros((v.shape[1], K)), np.zeros_like(v)
    for t in range(T):
        moved = np.diag(alpha[t]) @ (np.eye(K) - beta[t] * np.outer(k[t], k[t]))
        S = S @ moved + beta[t] * np.outer(v[t], k[t])
        y[t] = S @ q[t] / math.sqrt(K)
    return y


def normed(y: Array, gain: Array, eps: float) -> Array:
    return np.stack([row / math.sqrt(sum(number**2 for number in row) / len(row) + eps) * gain for row in y])


def gated_delta(x: Array, w: Weights, heads: int, value_heads: int, strongest: float, eps: float) -> Array:
    """x (T, D) -> (T, D); w["taps"] is (channels, W)."""
    made = projected(x, w["w_qkv"])
    made = each(silu, convolved(made, w["taps"].T, np.zeros(made.shape[1])))
    V = w["w_out"].shape[0] // value_heads
    K = (made.shape[1] - V * value_heads) // (2 * heads)
    logits, strengths = projected(x, w["w_a"]) + w["b_a"], projected(x, w["w_b"])
    gates, Y = each(silu, projected(x, w["w_g"])), np.zeros((len(x), value_heads * V))
    for h in range(value_heads):
        of = h * heads // value_heads
        q, k = (np.stack([unit(row) for row in made[:, at : at + K]]) for at in (of * K, (heads + of) * K))
        v = made[:, 2 * heads * K + h * V : 2 * heads * K + (h + 1) * V]
        alpha = [math.exp(-math.exp(w["a_log"][h]) * softplus(logit)) for logit in logits[:, h]]
        beta = np.array([strongest * sigmoid(number) for number in strengths[:, h]])
        y = delta_rule(q, k, v, np.tile(np.array(alpha)[:, None], K), beta)
        Y[:, h * V : (h + 1) * V] = normed(y, w["gain"], eps) * gates[:, h * V : (h + 1) * V]
    return out(Y, w)
