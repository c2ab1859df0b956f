"""Activation functions of state-space models other than the sigmoid, and pairs of numbers as complex ones."""

import math
from collections.abc import Callable

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, sigmoid


def gelu(z: float) -> float:
    """z Φ(z), Φ the normal distribution function."""
    return z * (1 + math.erf(z / math.sqrt(2))) / 2


def silu(z: float) -> float:
    return z * sigmoid(z)


def softplus(z: float) -> float:
    """ln(1 + e^z)."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def complexes(pairs: Array) -> Array:
    """(..., 2) real and imaginary parts -> (...) complex numbers."""
    return pairs[..., 0] + 1j * pairs[..., 1]


def each(function: Callable[[float], float], array: Array) -> Array:
    """A function of one number, on every number."""
    return np.array([function(float(number)) for number in array.ravel()]).reshape(array.shape)
