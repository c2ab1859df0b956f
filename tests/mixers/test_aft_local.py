"""AFT-local is its paper's equation."""

import numpy as np
import pytest

from tests.mixers.equation import CONTEXT, PROJECTIONS, Case, Recurrence, check_equation
from tests.mixers.recurrences.aft import aft_local
from tests.mixers.recurrences.arithmetic import Array, Weights


def local_of(window: int) -> Recurrence:
    return lambda x, w: aft_local(x, w, window)


def by_lag(x: Array, w: Weights) -> Array:
    """AFT-local with its biases at [t, lag]."""
    matrix = np.zeros((CONTEXT, CONTEXT))
    for t in range(CONTEXT):
        for lag in range(min(t + 1, w["biases"].shape[1])):
            matrix[t, t - lag] = w["biases"][t, lag]
    return aft_local(x, {**w, "biases": matrix}, w["biases"].shape[1])


LETTERS = {**PROJECTIONS, "w": "biases"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "aft_local": ({"kind": "aft_local", "window": 3, "bias_dim": 0}, by_lag),
    "aft_local of factors": ({"kind": "aft_local", "window": 2, "bias_dim": 3}, local_of(2)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_aft_local_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
