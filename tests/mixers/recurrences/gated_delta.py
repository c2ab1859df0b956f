"""The gated delta rule as a recurrence over matrices S (V, K), as the paper writes it; without a gate, and by channel.

    S_t = S_{t-1} (α_t (I - β_t k_t k_tᵀ)) + β_t v_t k_tᵀ,   o_t = S_t q_t / √K                        Eq. 10
    q, k, v = silu(conv(x W)),  q and k over their length,  α = exp(-A softplus(x W_a + b_a)),  β = c σ(x W_b)
    out = (o / √(mean of o² + ε) ∘ gain ∘ silu(x W_g)) W_o
    DeltaNet: α = 1, no gate.   KDA: α a vector over the keys' channels, S_{t-1} diag(α_t) (I - β_t k_t k_tᵀ); gate σ

Source: Yang et al., arXiv:2412.06464, section 3.1; A and b_a as in flash-linear-attention; arXiv:2406.06484; Kimi
Team, arXiv:2510.26692, Eq. 1.
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


def of_equal_widths(x: Array, w: Weights, h: int, heads: int) -> tuple[Array, Array, Array, slice]:
    """q, k and v of one head, where all three are D wide; and the head's channels."""
    made = projected(x, w["w_qkv"])
    made, D = each(silu, convolved(made, w["taps"].T, np.zeros(made.shape[1]))), x.shape[1]
    part = slice(h * D // heads, (h + 1) * D // heads)
    q, k = (np.stack([unit(row) for row in made[:, at + part.start : at + part.stop]]) for at in (0, D))
    return q, k, made[:, 2 * D :][:, part], part


def delta(x: Array, w: Weights, heads: int, strongest: float) -> Array:
    """x (T, D) -> (T, D)."""
    strengths, Y = strongest * each(sigmoid, projected(x, w["w_b"])), np.zeros_like(x)
    for h in range(heads):
        q, k, v, part = of_equal_widths(x, w, h, heads)
        Y[:, part] = normed(delta_rule(q, k, v, np.ones_like(k), strengths[:, h]), w["gain"], 1e-5)
    return out(Y, w)


def kda(x: Array, w: Weights, heads: int) -> Array:
    """x (T, D) -> (T, D)."""
    strengths, Y = each(sigmoid, projected(x, w["w_b"])), np.zeros_like(x)
    rates = each(softplus, projected(projected(x, w["decay_in"]), w["decay_out"]) + w["b_a"])
    gates = each(sigmoid, projected(projected(x, w["gate_in"]), w["gate_out"]) + w["b_g"])
    for h in range(heads):
        q, k, v, part = of_equal_widths(x, w, h, heads)
        alpha = np.exp(-math.exp(w["a_log"][h]) * rates[:, part])
        Y[:, part] = normed(delta_rule(q, k, v, alpha, strengths[:, h]), w["gain"], 1e-5)
    return out(Y * gates, w)
