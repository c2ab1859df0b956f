"""The gated delta rule as a recurrence over matrices S (V, K), as the paper writes it; without a gate, and by channel.

    S_t = S_{t-1} (α_t (I - β_t k_t k_tᵀ)) + β_t v_t k_tᵀ,   o_t = S_t q_t / √K                        Eq. 10
    q, k, v = silu(conv(x W)),  q and k over their length,  α = exp(-A softplus(x W_a + b_a)),  β = c σ(x W_b)
    out = (o / √(mean of o² + ε) ∘ gain ∘ silu(x W_g)) W_o
    DeltaNet: α = 1, no gate.   KDA: α a vector over the keys' channels, S_{t-1} diag(α_t) (I - β_t k_t k_tᵀ); gate σ
    Gated DeltaNet-2, as its paper has it, S (K, V): S_t = (I - k_t (b_t ∘ k_t)ᵀ) diag(α_t) S_{t-1} + k_t (w_t ∘ v_t)ᵀ
    DeltaProduct, S (K, V): A_t = ∏_{j=n…1} (I - β_j k_j k_jᵀ), B_t = Σ_j (∏_{l=n…j+1} (I - β_l k_l k_lᵀ)) β_j k_j v_jᵀ,
    S_t = α_t A_t S_{t-1} + B_t

Source: Yang et al., arXiv:2412.06464, section 3.1; A and b_a as in flash-linear-attention; arXiv:2406.06484; Kimi
Team, arXiv:2510.26692, Eq. 1; Hatamizadeh et al., arXiv:2605.22791; Siems et al., arXiv:2502.10297, section 4.
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


def gated_delta2(x: Array, w: Weights, heads: int, strongest: float) -> Array:
    """x (T, D) -> (T, D)."""
    erased, written = (each(sigmoid, projected(x, w[name])) for name in ("w_b", "w_w"))
    rates = each(softplus, projected(projected(x, w["decay_in"]), w["decay_out"]) + w["b_a"])
    gates, Y = each(sigmoid, projected(projected(x, w["gate_in"]), w["gate_out"]) + w.get("b_g", 0.0)), np.zeros_like(x)
    for h in range(heads):
        q, k, v, part = of_equal_widths(x, w, h, heads)
        K = k.shape[1]
        S, y = np.zeros((K, K)), np.zeros_like(v)
        for t in range(len(x)):
            alpha, b = np.exp(-math.exp(w["a_log"][h]) * rates[t, part]), strongest * erased[t, part]
            S = (np.eye(K) - np.outer(k[t], b * k[t])) @ np.diag(alpha) @ S + np.outer(k[t], written[t, part] * v[t])
            y[t] = S.T @ q[t] / math.sqrt(K)
        Y[:, part] = normed(y, w["gain"], 1e-5)
    return out(Y * gates, w)


def deltaproduct(x: Array, w: Weights, heads: int, value_heads: int, n: int, strongest: float, K: int) -> Array:
    """x (T, D) -> (T, D); columns of keys, values and strengths by step, then by head."""
    made = projected(x, w["w_qkv"])
    made, V = each(silu, convolved(made, w["taps"].T, np.zeros(made.shape[1]))), len(w["w_out"]) // value_heads
    strengths, Y = strongest * each(sigmoid, projected(x, w["w_b"])), np.zeros((len(x), value_heads * V))
    for h in range(value_heads):
        of = h * heads // value_heads
        S = np.zeros((K, V))
        for t, row in enumerate(made):
            A, added = np.eye(K), np.zeros((K, V))
            for j in range(n):
                k = unit(row[(heads * (1 + j) + of) * K :][:K])
                v = row[heads * (1 + n) * K + (value_heads * j + h) * V :][:V]
                beta = strengths[t, value_heads * j + h]
                moved = np.eye(K) - beta * np.outer(k, k)
                A, added = moved @ A, moved @ added + beta * np.outer(k, v)
            alpha = 1.0
            if "w_a" in w:
                logit = projected(x[t : t + 1], w["w_a"])[0, h] + w["b_a"][h]
                alpha = math.exp(-math.exp(w["a_log"][h]) * softplus(logit))
            S = alpha * A @ S + added
            Y[t, h * V : (h + 1) * V] = S.T @ unit(row[of * K : (of + 1) * K]) / math.sqrt(K)
        Y[:, h * V : (h + 1) * V] = normed(Y[:, h * V : (h + 1) * V], w["gain"], 1e-5)
    return out(Y * each(silu, projected(x, w["w_g"])) if "w_g" in w else Y, w)
