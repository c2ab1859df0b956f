"""Recipes and arrangements of layers are what `trainings.json` has: see `trainings.py`."""

from pathlib import Path

import pytest

from tests.recordings.trainings import CASES, identity_of, recorded, training

RECORDED = recorded()


def test_every_case_is_recorded() -> None:
    assert set(RECORDED) == set(CASES), "record: python -m tests.recordings.trainings"


@pytest.mark.parametrize("case", CASES)
def test_the_identity_of_a_run_stays(case: str) -> None:
    assert identity_of(case) == RECORDED[case]["identity"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_parameters_losses_and_tokens_stay(case: str, tmp_path: Path) -> None:
    found, expected = training(case, tmp_path), RECORDED[case]
    assert found["parameters"] == expected["parameters"], "names and shapes"
    for name in ("losses", "score", "tokens"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-11), name
