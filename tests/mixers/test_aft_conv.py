"""AFT-conv is its paper's equation."""

import pytest

from tests.mixers.equation import PROJECTIONS, Case, Recurrence, check_equation, check_without_guards
from tests.mixers.recurrences.aft import aft_conv
from tests.mixers.recurrences.guards import GUARDS


def conv_of(heads: int) -> Recurrence:
    return lambda x, w: aft_conv(x, {**w, "taps": w["lags"].T}, heads, **GUARDS["aft_conv"])


LETTERS = {**PROJECTIONS, "w": "lags", "gain": "gain", "shift": "shift"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "aft_conv, 1 head": ({"kind": "aft_conv", "heads": 1, "window": 1}, conv_of(1)),
    "aft_conv, 2 heads": ({"kind": "aft_conv", "heads": 2, "window": 3}, conv_of(2)),
    "aft_conv, 8 heads": ({"kind": "aft_conv", "heads": 8, "window": 4}, conv_of(8)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_aft_conv_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.parametrize("case", ["aft_conv, 2 heads", "aft_conv, 8 heads"])
def test_aft_conv_is_nearly_the_paper_without_its_guard(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_without_guards(*EQUATIONS[case], LETTERS, monkeypatch)
