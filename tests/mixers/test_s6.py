"""S6 is its paper's recurrence."""

import pytest

from tests.mixers.equation import SELECTIVE, Case, check_equation, check_long
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.mamba import parted
from tests.mixers.recurrences.s6 import s6


def of_s6(x: Array, w: Weights) -> Array:
    return s6(x, {**w, **parted(w["w_x"], w["a"].shape[1])})


LETTERS = SELECTIVE
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "s6": ({"kind": "s6", "state_dim": 4}, of_s6),
    "s6, steps of rank 3": ({"kind": "s6", "state_dim": 3, "dt_rank": 3}, of_s6),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_s6_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_s6_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)
