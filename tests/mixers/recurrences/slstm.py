"""sLSTM as the paper writes it, without a maximum, unit by unit.

    z̃_t = w_zᵀ x_t + r_zᵀ h_{t-1} + b_z,  so ĩ and f̃ from silu(conv(x)), õ from x                   Eq. 11-14
    c_t = f_t c_{t-1} + i_t z_t,  n_t = f_t n_{t-1} + i_t,  h_t = o_t c_t / n_t                     Eq. 8-10
    z = tanh(z̃),  i = exp(ĩ),  f = σ(f̃),  o = σ(õ)
    y = (h - mean) / √(variance + 1e-5) ∘ gain  of each head

Source: Beck et al., xLSTM, arXiv:2405.04517, section 2.2 and figure 10.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, product, projected, sigmoid
from tests.mixers.recurrences.mamba import convolved


def slstm(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w_if and w_zo are (2K, K, H), w_h (4K, K, H) and b_h (H, 4K), for i, f, z, o."""
    s = each(silu, convolved(x, w["taps"].T, w["b_taps"]))
    _, K, H = w["w_h"].shape
    y = np.zeros_like(x)
    for head in range(H):
        i_f, z_o = (projected(cut(u, head, H), w[name][:, :, head].T) for u, name in ((s, "w_if"), (x, "w_zo")))
        h, c, n = np.zeros(K), np.zeros(K), np.zeros(K)
        for t in range(len(x)):
            recurrent = product(h, w["w_h"][:, :, head].T) + w["b_h"][head]
            i, f, z, o = (np.concatenate([i_f[t], z_o[t]]) + recurrent).reshape(4, K)
            for k in range(K):
                c[k] = sigmoid(f[k]) * c[k] + math.exp(i[k]) * math.tanh(z[k])
                n[k] = sigmoid(f[k]) * n[k] + math.exp(i[k])
                h[k] = sigmoid(o[k]) * c[k] / n[k]
            y[t, head * K : (head + 1) * K] = (h - h.mean()) / math.sqrt(h.var() + 1e-5)
    return y * w["gain"]
