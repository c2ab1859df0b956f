"""AFT-simple is its paper's equation."""

import pytest

from tests.mixers.equation import PROJECTIONS, Case, check_equation
from tests.mixers.recurrences.aft import aft_simple

LETTERS = PROJECTIONS
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "aft_simple": ({"kind": "aft_simple"}, aft_simple),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_aft_simple_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
