"""benchmarks/saving.py saves in both forms and both ways."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.slow
def test_a_small_model(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    saving = script("saving")
    monkeypatch.setattr(saving, "PARAMETERS", 64_000)
    monkeypatch.setattr(saving, "REPEATS", 2)
    rows = list(saving.rows())
    assert [row["form"] for row in rows] == ["one process", "parts"]
    assert all(row["ratio_median_quartiles"]["sync"][0] == 1 for row in rows)
    assert all(row["ratio_median_quartiles"]["async"][0] > 0 for row in rows)
