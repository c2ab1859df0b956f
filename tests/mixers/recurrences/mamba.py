"""The Mamba block around S6.

    (u, z) = x W_in,  E channels each                                           section 3.4, figure 3
    u_t = silu(Σ_{r<W} k_r ⊙ u_{t-r} + b),  0 before the first token            the convolution, W = 4
    y = S6(u),  with Δ's R numbers, B and C by one projection of u              section 3.6
    out = (y ⊙ silu(z)) W_out

k_r is the weight at distance r.

Source: Gu and Dao, Mamba, arXiv:2312.00752; the order of the parts of W_in and W_x: github.com/state-spaces/mamba.
"""

import numpy as np

from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected
from tests.mixers.recurrences.s6 import s6


def convolved(u: Array, taps: Array, shift: Array) -> Array:
    """Each channel independently; taps (W, E) by distance."""
    y = np.zeros(u.shape)
    for t in range(len(u)):
        for c in range(u.shape[1]):
            y[t, c] = shift[c]
            for r in range(min(len(taps), t + 1)):
                y[t, c] += taps[r, c] * u[t - r, c]
    return y


def parted(w_x: Array, N: int) -> Weights:
    """W_x (E, R + 2N) as S6's three: for Δ's R numbers, for B and for C."""
    R = w_x.shape[1] - 2 * N
    return {"w_r": w_x[:, :R], "w_b": w_x[:, R : R + N], "w_c": w_x[:, R + N :]}


def mamba(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has w_in (D, 2E), taps (W, E), b_taps (E,), w_x (E, R + 2N) and S6's rest, w_out (E, D)."""
    both = projected(x, w["w_in"]) + w.get("b_in", 0.0)
    E, N = w["a"].shape
    u = each(silu, convolved(both[:, :E], w["taps"], w["b_taps"]))
    y = out(s6(u, {**w, **parted(w["w_x"], N)}) * each(silu, both[:, E:]), w)
    return y + w["b_out"] if "b_out" in w else y
