"""The attention-free Transformers: a weighted mean per channel, the query a gate.

    y_t = σ(q_t) ⊙ Σ_{j≤t} e^{k_j + w_tj} v_j / Σ_{j≤t} e^{k_j + w_tj}        Eq. 2, summed to t (section 3.1, causal)

    AFT-full:    w_tj for each pair of positions
    AFT-local:   w_tj where t - j < s, else 0 (the token is read all the same)                  Eq. 3
    AFT-simple:  w_tj = 0                                                                       section 3.2
    AFT-conv:    w_tj = w^h_{t-j} where t - j < s, else 0, per head h                           section 3.2, Eq. 4, 5
                 y_t = σ(q_t) ⊙ (conv(e^k ⊙ v, e^w - 1) + Σ_{j≤t} e^{k_j} v_j) / (conv(e^k, e^w - 1) + Σ_{j≤t} e^{k_j})

q = x W_Q, k = x W_K, v = x W_V, every product per channel; AFT-conv has one key for a head. w_tj of AFT-full and
AFT-local may be a product of two vectors, u_t·u'_j. y W_out follows where the mixer has one.

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected, sigmoid


def averaged(x: Array, w: Weights, bias: Callable[[int, int, int], float]) -> Array:
    """Eq. 2 with the bias of position t for token j in channel c."""
    Q, K, V = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v"))
    y = np.zeros_like(V)
    for t in range(len(x)):
        for c in range(V.shape[1]):
            above = below = 0.0
            for j in range(t + 1):
                weight = math.exp(K[j, c] + bias(t, j, c))
                above += weight * V[j, c]
                below += weight
            y[t, c] = sigmoid(Q[t, c]) * above / below
    return out(y, w)


def aft_simple(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has w_q, w_k, w_v and may have w_out."""
    return averaged(x, w, lambda t, j, c: 0.0)


def bias(w: Weights, t: int, j: int) -> float:
    """w_tj from the matrix `biases` (L, L), or from its factors (2, L, N)."""
    table = w["biases"]
    return dot(table[0, t], table[1, j]) if table.ndim == 3 else table[t, j]


def aft_full(x: Array, w: Weights) -> Array:
    """As `aft_simple`; w has further the biases."""
    return averaged(x, w, lambda t, j, c: bias(w, t, j))


def aft_local(x: Array, w: Weights, window: int) -> Array:
    """As `aft_full`, with biases in the window alone."""
    return averaged(x, w, lambda t, j, c: bias(w, t, j) if t - j < window else 0.0)


def standardised(taps: Array, gain: float, shift: float, within: float) -> Array:
    """A head's weights as section 3.2 reparametrises them: γ (w - mean w) / std w + β."""
    mean = sum(taps) / len(taps)
    deviation = math.sqrt(sum((tap - mean) ** 2 for tap in taps) / len(taps) + within)
    return np.array([gain * (tap - mean) / deviation + shift for tap in taps])


def aft_conv(x: Array, w: Weights, heads: int, *, within: float = 0.0) -> Array:
    """w has w_q, w_v, w_k (D, H), may have w_out, and has taps (H, s), gain and shift (H,).

    taps[h, r] is the bias at distance r. The two sums of Eq. 5, as printed. The paper has no `within`, which
    is added to the variance of taps.
    """
    Q, K, V = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v"))
    y = np.zeros_like(V)
    for h in range(heads):
        taps = standardised(w["taps"][h], w["gain"][h], w["shift"][h], within)
        for c in range(h * (V.shape[1] // heads), (h + 1) * (V.shape[1] // heads)):
            for t in range(len(x)):
                near_v = near = all_v = everything = 0.0
                for j in range(t + 1):
                    weight = math.exp(K[j, h])
                    all_v += weight * V[j, c]
                    everything += weight
                    if t - j < len(taps):
                        near_v += (math.exp(taps[t - j]) - 1) * weight * V[j, c]
                        near += (math.exp(taps[t - j]) - 1) * weight
                y[t, c] = sigmoid(Q[t, c]) * (near_v + all_v) / (near + everything)
    return out(y, w)
