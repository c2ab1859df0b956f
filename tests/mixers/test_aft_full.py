"""AFT-full is its paper's equation."""

import pytest

from tests.mixers.equation import PROJECTIONS, Case, check_equation
from tests.mixers.recurrences.aft import aft_full

LETTERS = {**PROJECTIONS, "w": "biases"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "aft_full": ({"kind": "aft_full", "bias_dim": 0}, aft_full),
    "aft_full of factors": ({"kind": "aft_full", "bias_dim": 3}, aft_full),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_aft_full_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
