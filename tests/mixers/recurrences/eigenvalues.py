"""Pairs of numbers as complex ones, and eigenvalues that let no state grow."""

import numpy as np

from tests.mixers.recurrences.activations import complexes
from tests.mixers.recurrences.arithmetic import Weights

CEILING = -1e-4
"""of the real parts of Λ in S4 and S5, so that no state grows: from the authors' code, which the papers have not"""


def of_pairs(w: Weights, *names: str) -> Weights:
    return {**w, **{name: complexes(w[name]) for name in names}}


def clipped(w: Weights) -> Weights:
    return {**w, "L": np.minimum(w["L"].real, CEILING) + 1j * w["L"].imag}
