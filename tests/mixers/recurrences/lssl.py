"""The linear state-space layer: for each channel a state, of which M numbers are read; then GELU and a layer.

    x_t = Ā x_{t-1} + B̄ u_t,  y_t = C x_t + D u_t,  C (M, N), D (M)            section 3, per channel, with its own Δ
    Ā = (I - Δ/2 A)^{-1} (I + Δ/2 A),  B̄ = (I - Δ/2 A)^{-1} ΔB                 section 2 with α = 1/2
    out = GELU(y, all channels' M side by side) W_out                           section 3, the deep model

A and B are HiPPO's or learned, the same in every channel or not.

Source: Gu et al., Combining Recurrent, Convolutional, and Continuous-time Models, arXiv:2110.13985.
"""

import numpy as np

from tests.mixers.recurrences.activations import each, gelu
from tests.mixers.recurrences.arithmetic import Array, Weights, out
from tests.mixers.recurrences.ssm import RULES, ssm


def lssl(x: Array, w: Weights, rule: str = "bilinear") -> Array:
    """x (T, D) -> (T, D); w has A (N, N) or (D, N, N), B (N,) or (D, N), C (D, M, N), D (D, M), delta (D,), w_out."""
    width, M, N = w["C"].shape
    A, B = np.broadcast_to(w["A"], (width, N, N)), np.broadcast_to(w["B"], (width, N))
    y = np.zeros((len(x), width * M))
    for c in range(width):
        stepped = RULES[rule](A[c], B[c], w["delta"][c])
        for m in range(M):
            y[:, c * M + m] = ssm(x[:, c], *stepped, w["C"][c, m], w["D"][c, m])
    y = out(each(gelu, y), w)
    return y + w["b_out"] if "b_out" in w else y
