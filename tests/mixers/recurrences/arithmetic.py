"""The few operations that the recurrences need, number by number.

Rows are multiplied from the left: x W, with W (D_in, D_out).
"""

import math

import numpy as np

Array = np.ndarray
Weights = dict[str, Array]
"""a paper's weights by its letters; absent where a variant has none"""


def product(row: Array, matrix: Array) -> Array:
    """x W for one token."""
    height, width = matrix.shape
    y = np.zeros(width)
    for b in range(width):
        for a in range(height):
            y[b] += row[a] * matrix[a, b]
    return y


def projected(x: Array, matrix: Array) -> Array:
    """x W for every token."""
    y = np.zeros((len(x), matrix.shape[1]))
    for t in range(len(x)):
        y[t] = product(x[t], matrix)
    return y


def dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


def cut(x: Array, head: int, heads: int) -> Array:
    """The channels of one head (T, D/H) of all (T, D)."""
    width = x.shape[1] // heads
    return x[:, head * width : (head + 1) * width]


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def out(y: Array, w: Weights) -> Array:
    """y W_out where there is a W_out."""
    return projected(y, w["w_out"]) if "w_out" in w else y
