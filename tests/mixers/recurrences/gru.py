"""The GRU in its two forms, and an output layer without a bias.

    r_j = σ([W_r x]_j + [U_r h_{t-1}]_j),   z_j = σ([W_z x]_j + [U_z h_{t-1}]_j)                 Eq. 5, 6
    h_j = z_j h_j^{t-1} + (1 - z_j) h̃_j                                                           Eq. 7
    h̃_j = tanh([W x]_j + [U (r ∘ h_{t-1})]_j)                                                     Eq. 8
    cuDNN:  h̃_j = tanh([W x]_j + b_j + r_j ([U h_{t-1}]_j + b'_j))

The equations of the paper leave the biases out; here each has one, b_r, b_z and b.

Source: Cho et al., Learning Phrase Representations, arXiv:1406.1078, section 2.3; NVIDIA's cuDNN manual, CUDNN_GRU.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, out, product, sigmoid


def gru(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has w_r, w_z, w_n (D, N), u_r, u_z, u_n (N, N), b_r, b_z, b_n (N,) and w_out.

    With inner (N,), b', it is cuDNN's.
    """
    N = len(w["b_n"])
    h, y = np.zeros(N), np.zeros((len(x), N))
    for t in range(len(x)):
        of_x = {gate: product(x[t], w[f"w_{gate}"]) + w[f"b_{gate}"] for gate in "rzn"}
        of_h = {gate: product(h, w[f"u_{gate}"]) for gate in "rz"}
        r, z = (np.array([sigmoid(s) for s in of_x[gate] + of_h[gate]]) for gate in "rz")
        past = r * (product(h, w["u_n"]) + w["inner"]) if "inner" in w else product(r * h, w["u_n"])
        for j in range(N):
            y[t, j] = z[j] * h[j] + (1 - z[j]) * math.tanh(of_x["n"][j] + past[j])
        h = y[t]
    return out(y, w)
