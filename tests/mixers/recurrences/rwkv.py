"""RWKV-4: time mixing as a sum over all tokens and as a recurrence, and channel mixing.

    z_t = μ_z ⊙ x_t + (1 - μ_z) ⊙ x_{t-1},  z in {r, k, v},  x_0 = 0           Eq. 11-13, token shift
    r = z W_r, k = z W_k, v = z W_v
    wkv_t = (Σ_{j<t} e^{-(t-1-j)w + k_j} v_j + e^{u + k_t} v_t) / (Σ_{j<t} e^{-(t-1-j)w + k_j} + e^{u + k_t})    Eq. 16
    o_t = (σ(r_t) ⊙ wkv_t) W_o                                                 Eq. 17
    recurrent:  a_0 = b_0 = 0,  wkv_t = (a_{t-1} + e^{u + k_t} v_t) / (b_{t-1} + e^{u + k_t}),
                a_t = e^{-w} a_{t-1} + e^{k_t} v_t,  b_t = e^{-w} b_{t-1} + e^{k_t}       appendix D, Eq. 22-26
    channel mixing:  o_t = σ(r'_t) ⊙ (max(k'_t, 0)² W_v')                      Eq. 14, 15, 18

w and u are per channel, w ≥ 0; the public code keeps ln w as its parameter.

Source: Peng et al., RWKV, arXiv:2305.13048; github.com/BlinkDL/RWKV-LM, RWKV-v4 (w = e^{time_decay}).
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid


def shifted(x: Array, mu: Array) -> Array:
    y = np.zeros_like(x)
    for t in range(len(x)):
        for c in range(x.shape[1]):
            y[t, c] = mu[c] * x[t, c] + (1 - mu[c]) * (x[t - 1, c] if t else 0.0)
    return y


def wkv_as_a_sum(k: Array, v: Array, decay: Array, bonus: Array) -> Array:
    y = np.zeros_like(v)
    for t in range(len(v)):
        for c in range(v.shape[1]):
            weight = math.exp(bonus[c] + k[t, c])
            above, below = weight * v[t, c], weight
            for j in range(t):
                weight = math.exp(-(t - 1 - j) * decay[c] + k[j, c])
                above += weight * v[j, c]
                below += weight
            y[t, c] = above / below
    return y


def wkv_as_a_recurrence(k: Array, v: Array, decay: Array, bonus: Array) -> Array:
    y = np.zeros_like(v)
    for c in range(v.shape[1]):
        a = b = 0.0
        for t in range(len(v)):
            now, kept = math.exp(bonus[c] + k[t, c]), math.exp(-decay[c])
            y[t, c] = (a + now * v[t, c]) / (b + now)
            a = kept * a + math.exp(k[t, c]) * v[t, c]
            b = kept * b + math.exp(k[t, c])
    return y


def time_mixing(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has mu_r, mu_k, mu_v, w_r, w_k, w_v, decay (w itself), bonus and w_out."""
    r, k, v = (projected(shifted(x, w[f"mu_{z}"]), w[f"w_{z}"]) for z in "rkv")
    y = wkv_as_a_recurrence(k, v, w["decay"], w["bonus"])
    for t in range(len(x)):
        for c in range(y.shape[1]):
            y[t, c] *= sigmoid(r[t, c])
    return out(y, w)


def channel_mixing(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has mu_r, mu_k, w_r (D, D), w_k (D, N) and w_v (N, D)."""
    r, k = (projected(shifted(x, w[f"mu_{z}"]), w[f"w_{z}"]) for z in "rk")
    for t in range(len(x)):
        for n in range(k.shape[1]):
            k[t, n] = max(k[t, n], 0.0) ** 2
    y = projected(k, w["w_v"])
    for t in range(len(x)):
        for c in range(y.shape[1]):
            y[t, c] *= sigmoid(r[t, c])
    return y
