"""Mamba-2 as a state space: each channel of a head has its own N states, which all have the same decay.

    (z, u, B, C, dt) = x W_in,   (u, B, C) = silu(conv(u, B, C) + b),   Δ = softplus(dt + b_dt)
    h_t = exp(-e^a Δ_t) h_{t-1} + Δ_t B_t u_t,   y_t = C_t · h_t + d u_t       per channel; a, d and Δ per head
    out = (r / √(mean of r² + ε) ∘ gain) W_out,   r = y ∘ silu(z)              the mean over the channels of a group

Source: Dao and Gu, arXiv:2405.21060, Eq. 16 and section 7; the order of the parts of W_in: mamba_ssm.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each, silu, softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected
from tests.mixers.recurrences.mamba import convolved


def mamba2(x: Array, w: Weights, heads: int, groups: int, states: int, eps: float) -> Array:
    """x (T, D) -> (T, D); w["taps"] is (channels, W), w["gain"] (E / groups, groups)."""
    E = w["w_out"].shape[0]
    made = projected(x, w["w_in"])
    z, steps = made[:, :E], made[:, -heads:] + w["b_dt"]
    passed = each(silu, convolved(made[:, E:-heads], w["taps"].T, w["b_taps"]))
    u, B, C = passed[:, :E], passed[:, E : E + groups * states], passed[:, E + groups * states :]
    r, width = np.zeros((len(x), E)), E // heads
    for c in range(E):
        head = c // width
        group = slice(head * groups // heads * states, (head * groups // heads + 1) * states)
        h = np.zeros(states)
        for t in range(len(x)):
            step = softplus(steps[t, head])
            h = math.exp(-math.exp(w["a_log"][head]) * step) * h + step * B[t, group] * u[t, c]
            r[t, c] = (dot(C[t, group], h) + w["d"][head] * u[t, c]) * silu(z[t, c])
    for t in range(len(x)):
        for g in range(groups):
            part = slice(g * E // groups, (g + 1) * E // groups)
            r[t, part] /= math.sqrt(dot(r[t, part], r[t, part]) / (E // groups) + eps)
    return out(r * w["gain"].T.ravel(), w)
