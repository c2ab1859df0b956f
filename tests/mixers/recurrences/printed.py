"""Formulas as two seed texts print them, evaluated to the letter: `test_printed_formulas` says what is wrong in each.

Seed 001 is a blog on faster attention, seed 004 a survey from RNN to Mamba. An index that a formula leaves unbound is
an argument here. One head; q, k, v (T, D); positions count from 0.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights, dot, projected, sigmoid
from tests.mixers.recurrences.rwkv import shifted


def mean(v: Array, above: Callable[[int, int], float], below: Callable[[int], float]) -> Array:
    """Σ_{m≤n} above(n, m) v_m / below(n)."""
    y = np.zeros_like(v)
    for n in range(len(v)):
        for m in range(n + 1):
            y[n] += above(n, m) * v[m] / below(n)
    return y


def aft_001_eq_6(k: Array, v: Array, biases: Array) -> Array:
    """k (T,): one number for a token."""

    def weight(n: int, m: int) -> float:
        return math.exp(biases[m, n]) * math.exp(k[m])

    return mean(v, weight, lambda n: sum(weight(n, m) for m in range(n + 1)))


def aft_001_eq_7(k: Array, v: Array, biases: Array, m: Callable[[int], int]) -> Array:
    """Without the gate: the sum below runs over n, and m is free."""

    def below(position: int) -> float:
        return sum(math.exp(biases[m(position), n]) * math.exp(k[m(position)]) for n in range(position + 1))

    return mean(v, lambda n, m: math.exp(biases[m, n]) * math.exp(k[m]), below)


def rwkv_001_eq_8_9(k: Array, v: Array, omega: float, alpha: float, j: Callable[[int, int], int]) -> Array:
    """j(n, m) is what j stands for in the sum below."""

    def distance(n: int, m: int) -> float:
        return (n - m) * omega if n > m else alpha

    def below(n: int) -> float:
        return sum(math.exp(k[j(n, m)]) * math.exp(-distance(n, m)) for m in range(n + 1))

    return mean(v, lambda n, m: math.exp(k[m]) * math.exp(-distance(n, m)), below)


def kernel_001_eq_10(q: Array, k: Array, v: Array, sim: Callable[[Array, Array], float]) -> Array:
    def below(n: int) -> float:
        return sum(sim(q[n], k[m]) for m in range(len(v)))

    return mean(v, lambda n, m: sim(q[n], k[m]), below)


def kernel_001_eq_11(q: Array, k: Array, v: Array, z: Callable[[Array], Array]) -> Array:
    """sim[q_n, k_m] = z[q_m] z[k_m]ᵀ, in a mean over m ≤ n."""

    def sim(n: int, m: int) -> float:
        return dot(z(q[m]), z(k[m]))

    return mean(v, sim, lambda n: sum(sim(n, m) for m in range(n + 1)))


def retention_001_eq_20(q: Array, k: Array, v: Array, gamma: float) -> Array:
    return mean(v, lambda n, m: gamma ** (n - m) * dot(q[n], k[m]), lambda n: 1.0)


def retention_001_eq_22(q: Array, k: Array, v: Array, gamma: np.floating, ordered: bool) -> Array:
    """In the dtype of gamma, positions from 1; the product as printed, a_n q_n, or `ordered`, q_n a_n."""
    kind = type(gamma)
    a, y = np.zeros((k.shape[1], v.shape[1]), dtype=kind), np.zeros_like(v, dtype=kind)
    for t in range(len(v)):
        n = kind(t + 1)
        a = a + gamma**-n * np.outer(k[t], v[t]).astype(kind)
        y[t] = gamma**n * (q[t].astype(kind) @ a if ordered else a @ q[t].astype(kind))
    return y


def phi_004_eq_10(x: Array, omega: Array) -> float:
    return math.exp(-dot(x, x) / 2) * math.exp(dot(omega, x))


def performer_004_eq_11(q: Array, k: Array, v: Array, phi: Callable[[Array], Array]) -> Array:
    """Summed over all tokens, as printed."""
    y = np.zeros_like(v)
    for n in range(len(v)):
        for m in range(len(v)):
            y[n] += dot(phi(q[n]), phi(k[m])) * v[m]
    return y


def aft_004_eq_16(q: Array, k: Array, v: Array, biases: Array) -> Array:
    y = np.zeros_like(v)
    for t in range(len(v)):
        for c in range(v.shape[1]):
            weights = [math.exp(k[j, c] + biases[t, j]) for j in range(len(v))]
            y[t, c] = sigmoid(q[t, c]) * dot(np.array(weights), v[:, c]) / sum(weights)
    return y


def rwkv_004_eq_18_19(k: Array, v: Array, w: float, u: float | Array, j: Callable[[int], int]) -> Array:
    """One channel, (T,). j(t) is what j stands for in the bonus, where nothing binds it; u a number, or one a step."""
    y = np.zeros(len(v))
    for t in range(1, len(v) + 1):
        bonus = math.exp(k[j(t) - 1] + np.broadcast_to(u, len(v))[t - 1])
        above, below = bonus * v[t - 1], bonus
        for i in range(1, t):
            bias = -(t - i) * w
            weight = math.exp(k[i - 1] - (t - 1 - i) * bias)
            above += weight * v[i - 1]
            below += weight
        y[t - 1] = above / below
    return y


def rwkv_004_eq_21(k: Array, v: Array, w: float, u: float) -> Array:
    """One channel, (T,)."""
    y, a, b = np.zeros(len(v)), 0.0, 0.0
    for t in range(len(v)):
        y[t] = (a + math.exp(u + k[t]) * v[t]) / (b + math.exp(u) + k[t])
        a = math.exp(-w) * a + math.exp(k[t]) * v[t]
        b = math.exp(-w) * b + math.exp(k[t])
    return y


def channel_mixing_004_eq_22(x: Array, w: Weights) -> Array:
    hidden = np.maximum(projected(x, w["w_k"]), 0) ** 2
    gate = np.vectorize(sigmoid)(projected(x, w["w_r"]))
    return gate * projected(hidden, w["w_v"])


def block_004_eq_23(x: Array, mu: Array, time: Callable[[Array], Array], channel: Callable[[Array], Array]) -> Array:
    shifted_input = shifted(x, mu)
    time_mix_output = time(shifted_input) + shifted_input
    return shifted_input + channel(time_mix_output)
