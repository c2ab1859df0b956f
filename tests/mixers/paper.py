"""The paper's equations written a second time, number by number in numpy: the mixers are compared with them.

Source: Chen, Attention Is Not All You Need Anymore, arXiv:2308.07661, Eq. 10-17 (attention), 23-25 (SHE), 26 (WE),
27-28 (HE), 29 (ME). Written from the paper, without a look at the mixers.
"""

import math
from collections.abc import Callable

import numpy as np

Array = np.ndarray
Weights = dict[str, Array]
"""the paper's matrices, with vectors multiplied from the left: x W"""
D = 8


def eq_10_to_17(x: Array, w: Weights, heads: int) -> Array:
    """Multi-head self-attention of one row (T, D)."""
    T, h = len(x), D // heads
    w_q, w_k, w_v = np.split(w["w_qkv"], 3, 1)
    concatenated = np.zeros((T, D))
    for n in range(heads):
        part = slice(n * h, (n + 1) * h)
        Q, K, V = x @ w_q[:, part], x @ w_k[:, part], x @ w_v[:, part]  # Eq. 10-12
        for i in range(T):
            z = [sum(Q[i, c] * K[k, c] for c in range(h)) / math.sqrt(h) for k in range(i + 1)]  # Eq. 13
            total = sum(math.exp(f) for f in z)
            for k in range(i + 1):
                concatenated[i, part] += math.exp(z[k]) / total * V[k]  # Eq. 14-16
    return concatenated @ w["w_out"]  # Eq. 17


def extraction(x: Array, taps: Array, product: Callable[[Array, Array], Array]) -> Array:
    """Eq. 23, 26, 28 and 29: the sum over j of x_j and the tap i-j+1; taps beyond the last are 0."""
    y = np.zeros_like(x)
    for i in range(1, len(x) + 1):
        for j in range(1, i + 1):
            if i - j + 1 <= len(taps):
                y[i - 1] += product(x[j - 1], taps[i - j])
    return y


def by_matrix(x: Array, tap: Array) -> Array:
    return np.array([sum(x[a] * tap[a, b] for a in range(D)) for b in range(D)])


def by_groups(x: Array, taps: Array) -> Array:
    width = taps.shape[1]
    return np.concatenate([x[g * width : (g + 1) * width] @ tap for g, tap in enumerate(taps)])


def by_element(x: Array, tap: Array) -> Array:
    return x * tap


def adjusted(x: Array, extracted: Array, w: Weights) -> Array:
    """Eq. 24 and, where there is a W out, Eq. 25."""
    y = (x @ w["w_adj"]) * extracted
    return y @ w["w_out"] if "w_out" in w else y


def she(x: Array, w: Weights) -> Array:
    return adjusted(x, extraction(x, w["w_ext"], by_matrix), w)


def she_in_groups(x: Array, w: Weights) -> Array:
    return adjusted(x, extraction(x, w["w_ext"], by_groups), w)


def we(x: Array, w: Weights) -> Array:
    return adjusted(x, extraction(x, w["w_ext"], by_element), w)


def he(x: Array, w: Weights) -> Array:
    return adjusted(x, extraction(x @ w["w_in"], w["w_ext"], by_element), w)


def he_extraction(x: Array, w: Weights) -> Array:
    return extraction(x @ w["w_in"], w["w_ext"], by_element)


def me(x: Array, w: Weights) -> Array:
    return extraction(x, w["w_ext"], by_element)


def family_in_groups(x: Array, w: Weights) -> Array:
    return adjusted(x, extraction(x @ w["w_in"], w["w_ext"], by_groups), w)
