"""What a fault leaves of a run on two or three processes: it is named, the run goes on, no checkpoint is lost.

More of them, with a table: `python -m tests.faults --number 200 --seed 0`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.trial import KINDS, draw_fault, expected_run, try_fault

QUICK = ("disk full", "a flipped bit")
KILLS = 50
OTHERS = [kind for kind in KINDS if kind != "killed at a write"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield expected_run(tmp_path_factory.mktemp("expected") / "run")


def survive(kind: str, number: int, folder: Path, expected: Path) -> None:
    result = try_fault(draw_fault(kind, 0, number), folder, expected)
    assert result.detected, result.why
    assert result.recovered, result.why
    assert not result.lost, result.why


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[pytest.mark.slow] if number > 2 else []) for number in range(KILLS)]
)
def test_a_kill_at_a_write_leaves_a_step_that_verifies(number: int, tmp_path: Path, expected: Path) -> None:
    survive("killed at a write", number, tmp_path, expected)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, number, marks=[] if kind in QUICK and number == 0 else [pytest.mark.slow])
        for kind in OTHERS
        for number in range(2)
    ],
)
def test_other_faults(kind: str, number: int, tmp_path: Path, expected: Path) -> None:
    survive(kind, number, tmp_path, expected)
