"""Each of our mixers computes what `equations.json` has of its version: see `equations.py`."""

import pytest

from seqloom.mixers import kinds
from tests.recordings.equations import BOUND, differing, equation, ours, recorded

RECORD = "python -m tests.recordings.equations"


def test_every_mixer_is_recorded() -> None:
    assert recorded().keys() == set(ours()), f"record: {RECORD}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ours())
def test_the_version_is_that_of_the_numbers(kind: str) -> None:
    entry = recorded()[kind]
    version = kinds()[kind].equation_version
    assert version == entry["version"], f"{kind} has another equation_version than its numbers: {RECORD}"
    different = differing(entry["numbers"], equation(kind))
    assert not different, (
        f"{kind} computes something else than at version {version} ({'; '.join(different)}): if it is meant to, raise "
        f"equation_version of its settings to {version + 1} and record it: {RECORD}"
    )


def test_numbers_that_differ() -> None:
    before = {"{} causal": [2.0, -3e6]}
    assert differing(before, {"{} causal": [2.0 + BOUND, -3e6 * (1 + BOUND / 2)]}) == []
    assert differing(before, {"{} causal": [2.0 + 3 * BOUND, -3e6]}) == ["{} causal"]
    assert differing(before, {"{} causal": [2.0]}) == ["{} causal"]
    assert differing(before, {}) == differing({}, before) == ["{} causal"]
