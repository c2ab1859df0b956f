"""The Hyena operator of order N: long convolutions and products alternate.

    (x^1, …, x^N, v) = short convolutions of projections of u                   Algorithm 1
    z^1 = v,  z^{n+1}_t = x^n_t (h^n * z^n)_t,  n = 1 … N,  y = z^{N+1}         Definition 3.1, Eq. 4
    h_t = Window(t) · (FFN ∘ PositionalEncoding)(t),  N filters for each channel, of one network    Eq. 7, Algorithm 2
    Window(t) = e^{-αt} + floor,  α for each channel, t from 0 to 1             figure 3.1
    PositionalEncoding(t) = (t, Re ρ_0 … Re ρ_{K-1}, Im ρ_0 …),  ρ_k = e^{2πikt/L}      appendix
    FFN: layers with sin(ω ·) between                                           section 3, Hyena filters

The authors' code adds to each convolution b ⊙ z, a weight more at distance 0, and a projection y W_out.

Source: Poli et al., Hyena Hierarchy, arXiv:2302.10866.
"""

import math
from collections.abc import Sequence

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, projected
from tests.mixers.recurrences.mamba import convolved


def encoding(L: int, bands: int) -> Array:
    """(L, 1 + 2 K): t from 0 to 1, and the real and imaginary parts of ρ_0 … ρ_{K-1}."""
    rows = []
    for t in range(L):
        angles = [2 * math.pi * k * t / L for k in range(bands)]
        rows.append([t / (L - 1), *map(math.cos, angles), *map(math.sin, angles)])
    return np.array(rows)


def implicit(
    L: int,
    width: int,
    layers: Sequence[tuple[Array, Array]],
    omega: float | Array,
    rates: Array,
    floor: float,
) -> list[Array]:
    """h^1 … h^N, each (L, D): the network's N D outputs, h^1 first, under the window of each channel's rate α."""
    bands = (len(layers[0][0]) - 1) // 2
    every = network(encoding(L, bands), layers, omega)
    result = []
    for n in range(every.shape[1] // width):
        h = np.zeros((L, width))
        for t in range(L):
            for c in range(width):
                h[t, c] = every[t, n * width + c] * (math.exp(-rates[c] * t / (L - 1)) + floor)
        result.append(h)
    return result


def network(features: Array, layers: Sequence[tuple[Array, Array]], omega: float | Array) -> Array:
    """FFN: features (L, E) through (W, b) with a sine after each but the last."""
    y = features
    for position, (weight, shift) in enumerate(layers):
        y = projected(y, weight) + shift
        if position < len(layers) - 1:
            y = np.vectorize(math.sin)(omega * y)
    return y


def convolution(h: Array, z: Array, bias: Array) -> Array:
    """(h * z)_t = Σ_{l≤t} h_l z_{t-l} + b z_t, each channel independently; h_l is 0 from the context's length on."""
    y = np.zeros(z.shape)
    for t in range(len(z)):
        for c in range(z.shape[1]):
            y[t, c] = bias[c] * z[t, c]
            for lag in range(min(t + 1, len(h))):
                y[t, c] += h[lag, c] * z[t - lag, c]
    return y


def operator(xs: Sequence[Array], v: Array, filters: Sequence[Array], biases: Array) -> Array:
    """Definition 3.1 for given projections (T, D) and filters (L, D), both in the order n = 1 … N."""
    z = v
    for n, (x, h) in enumerate(zip(xs, filters, strict=True)):
        z = x * convolution(h, z, biases[n])
    return z


def hyena(x: Array, w: Weights, filters: Sequence[Array]) -> Array:
    """x (T, D) -> (T, D); w has w_in (D, (N+1) D), taps (W, (N+1) D), biases (N, D), w_out, and may have b_in, b_taps.

    The parts of w_in are x^1 … x^N and v, as Algorithm 1 returns them.
    """
    all_parts = projected(x, w["w_in"]) + w.get("b_in", 0.0)
    short = convolved(all_parts, w["taps"], w.get("b_taps", np.zeros(all_parts.shape[1])))
    width = x.shape[1]
    parts = [short[:, n * width : (n + 1) * width] for n in range(len(filters) + 1)]
    y = operator(parts[:-1], parts[-1], filters, w["biases"])
    return projected(y, w["w_out"]) + w.get("b_out", 0.0)


def authors_rates(width: int, slow: float, fast: float) -> Array:
    """α of each channel: the window falls to 1/100 after a share of the context, `slow` to `fast`.

    The paper gives none; this is the authors' code.
    """
    ends = math.log(100) / slow, math.log(100) / fast
    return np.array([ends[0] + (ends[1] - ends[0]) * c / (width - 1) for c in range(width)])
