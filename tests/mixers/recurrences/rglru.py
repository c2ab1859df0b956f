"""Griffin's recurrent block, number by number, in the paper's letters.

    r_t = σ(W_a u_t + b_a),  i_t = σ(W_x u_t + b_x)                                                  Eq. 1, 2
    a = σ(Λ),  a_t = a^{c r_t},  c = 8                                                               Eq. 3
    h_t = a_t h_{t-1} + √(1 - a_t²) (i_t u_t),   with 1 for the root at t = 1                        Eq. 4
    out = (h ∘ GeLU(x W_y + b_y)) W_o + b_o,   u the convolution of x W_x + b_x                      section 2.3

Source: De et al., arXiv:2402.19427; the 1 and GeLU by tanh from the authors' recurrentgemma.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, projected, sigmoid
from tests.mixers.recurrences.mamba import convolved

C = 8


def gelu(z: float) -> float:
    return z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


def rglru(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w["gates"] (2N, N, H) and w["b_gates"] (H, 2N): r's columns, then i's; w["taps"] (E, W)."""
    u = convolved(projected(x, w["w_x"]) + w["b_x"], w["taps"].T, w["b_taps"])
    branch = each(gelu, projected(x, w["w_y"]) + w["b_y"])
    h, (_, N, H) = np.zeros_like(u), w["gates"].shape
    for head in range(H):
        logits = projected(cut(u, head, H), w["gates"][:, :, head].T) + w["b_gates"][head]
        for n in range(N):
            channel, before = head * N + n, 0.0
            a = sigmoid(-w["rate"][channel])  # the paper's Λ is minus the program's
            for t in range(len(x)):
                a_t = a ** (C * sigmoid(logits[t, n]))
                root = math.sqrt(1 - a_t**2) if t else 1.0
                before = a_t * before + root * sigmoid(logits[t, N + n]) * u[t, channel]
                h[t, channel] = before
    return projected(h * branch, w["w_out"]) + w["b_out"]
