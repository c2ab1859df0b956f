"""benchmarks/slopes.py writes a row for each system of seed 004's Table I and each quantity."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.analysis.slopes import QUANTITIES, Growth


def test_rows(script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script("harness"), "RESULTS", tmp_path)
    slopes = script("slopes")
    monkeypatch.setattr(slopes, "gate", lambda *tests: None)
    monkeypatch.setattr(slopes, "VARIANTS", ())
    monkeypatch.setattr(slopes, "growth", lambda claim, q: Growth(claim.system, q, (1.004, 2.0), (1.0, 1.0)))
    assert set(slopes.WORDS) == set(QUANTITIES)
    slopes.main()
    rows = [json.loads(line) for line in (tmp_path / "slopes.jsonl").read_text().splitlines()]
    systems = {row["system"] for row in rows}
    assert len(systems) == 6
    assert len(rows) == 6 * len(QUANTITIES)
    assert (rows[0]["over_n"], rows[0]["over_d"], rows[0]["agrees"]) == (1.0, 2.0, False)
    assert rows[2]["backends"] == {"attention": "formed"}
    assert {row["printed_for"] for row in rows if row["quantity"]} == {"time", "space"}
