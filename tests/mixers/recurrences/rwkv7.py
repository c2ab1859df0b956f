"""RWKV-7's time mixing as the paper's recurrence over matrices S (values × keys).

    z_t = x_t + μ_z ⊙ (x_{t-1} - x_t),  x_0 = 0, z of r, w, k, v, a, g
    w = exp(-e^{-1/2} σ(w_0 + tanh(z_w W_1) W_2)),   a = σ(a_0 + z_a A_1 A_2),   g = σ(z_g G_1) G_2
    v ← v + (v_first - v) ⊙ σ(v_0 + z_v V_1 V_2)                               where v_first is given
    κ = k ⊙ ξ,  κ̂ = κ / ‖κ‖ per head,  k̃ = k ⊙ (1 + (a - 1) ⊙ α)
    S_t = S_{t-1} (diag(w_t) - κ̂_tᵀ (a_t ⊙ κ̂_t)) + v_tᵀ k̃_t,   p = GN(S_t r_t) + (r_t · (ρ ⊙ k̃_t)) v_t
    out = (g ⊙ p) W_o                                                           GN per head, ε = 1e-5 · head width

Source: Peng et al., arXiv:2503.14456, section 4; the normalization's ε from RWKV-LM.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid


def rwkv7(x: Array, w: Weights, heads: int, v_first: Array | None = None) -> Array:
    """x (T, D) -> (T, D)."""
    before = np.vstack([np.zeros(x.shape[1]), x[:-1]])
    z = dict(zip("rwkvag", (x + mu * (before - x) for mu in w["mu"]), strict=True))
    r, k, v = (projected(z[name], w[f"w_{name}"]) for name in "rkv")
    decay = projected(each(math.tanh, projected(z["w"], w["decay_in"])), w["decay_out"]) + w["w_0"]
    decay = np.exp(-math.exp(-0.5) * each(sigmoid, decay))
    a = each(sigmoid, projected(projected(z["a"], w["rate_in"]), w["rate_out"]) + w["a_0"])
    g = projected(each(sigmoid, projected(z["g"], w["gate_in"])), w["gate_out"])
    if v_first is not None:
        share = each(sigmoid, projected(projected(z["v"], w["value_in"]), w["value_out"]) + w["v_0"])
        v = v + (v_first - v) * share
    kappa, k = k * w["xi"], k * (1 + (a - 1) * w["alpha"])
    K, y = x.shape[1] // heads, np.zeros_like(x)
    for h in range(heads):
        S, part = np.zeros((K, K)), slice(h * K, (h + 1) * K)
        for t in range(len(x)):
            unit = kappa[t, part] / math.sqrt(sum(number**2 for number in kappa[t, part]))
            S = S @ (np.diag(decay[t, part]) - np.outer(unit, a[t, part] * unit)) + np.outer(v[t, part], k[t, part])
            read = S @ r[t, part]
            normed = (read - read.mean()) / math.sqrt(read.var() + 1e-5 * K)
            bonus = sum(r[t, part] * w["rho"][h] * k[t, part]) * v[t, part]
            y[t, part] = normed * w["gain"][part] + w["shift"][part] + bonus
    return out(g * y, w)
