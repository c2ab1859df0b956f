"""GSS, the gated state space layer: a diagonal state-space model of few channels, and a gate of many.

    U = GELU(X W_U) (T, H),  V = GELU(X W_V) (T, F),  H < D < F                 section 3.2
    Y = DSS(U),  O = ((Y W_Y) ⊙ V) W_O                                         section 3.2
    DSS of channel h:  k_l = Re Σ_n C_hn (e^{λ_n} - 1) / λ_n e^{λ_n l},  λ_n = -e^{a_n} + i e^{b_n}   section 3.1, Δ = 1
    y_t = Σ_{l≤t} k_l u_{t-l} + D_h u_t

λ is the same in all channels. The authors' listing has a LayerNorm before DSS, here where there is a gain for it; the
residual and the LayerNorm around the layer belong to the block.

Source: Mehta, Gupta, Cutkosky, Neyshabur, Long Range Language Modeling via Gated State Spaces, arXiv:2206.13947.
"""

import cmath
import math

import numpy as np

from tests.mixers.recurrences.activations import each, gelu
from tests.mixers.recurrences.arithmetic import Array, Weights, projected


def dss(u: Array, w: Weights) -> Array:
    """u (T, H) -> (T, H); w has a, b (N,), C (H, N) complex and D (H,)."""
    y = np.zeros(u.shape)
    for h in range(u.shape[1]):
        kernel = [0.0] * len(u)
        for n in range(len(w["a"])):
            rate = complex(-math.exp(w["a"][n]), math.exp(w["b"][n]))
            for lag in range(len(u)):
                kernel[lag] += (w["C"][h, n] * (cmath.exp(rate) - 1) / rate * cmath.exp(rate * lag)).real
        for t in range(len(u)):
            y[t, h] = w["D"][h] * u[t, h]
            for lag in range(t + 1):
                y[t, h] += kernel[lag] * u[t - lag, h]
    return y


def layer_norm(u: Array, gain: Array, shift: Array, eps: float) -> Array:
    y = np.zeros(u.shape)
    for t in range(len(u)):
        mean = sum(u[t]) / len(u[t])
        variance = sum((number - mean) ** 2 for number in u[t]) / len(u[t])
        for c in range(len(u[t])):
            y[t, c] = gain[c] * (u[t, c] - mean) / math.sqrt(variance + eps) + shift[c]
    return y


def gss(x: Array, w: Weights, eps: float = 0.0) -> Array:
    """x (T, D) -> (T, D); w has w_u (D, H), w_v (D, F), w_y (H, F), w_o (F, D), DSS's, and may have gain and shift."""
    u, v = (each(gelu, projected(x, w[f"w_{name}"]) + w.get(f"b_{name}", 0.0)) for name in "uv")
    y = dss(layer_norm(u, w["gain"], w["shift"], eps) if "gain" in w else u, w)
    gated = (projected(y, w["w_y"]) + w.get("b_y", 0.0)) * v
    return projected(gated, w["w_o"]) + w.get("b_o", 0.0)
