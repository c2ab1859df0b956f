"""fixed_mixing.py writes rows with the goals that were set and whether they are met."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Script = Callable[[str], Any]


def test_the_goals_are_those_that_were_set(script: Script) -> None:
    fixed = script("fixed_mixing")
    assert (fixed.T, fixed.DIM, fixed.HEADS, fixed.OURS["linformer"]["k"]) == (8192, 256, 4, 256)
    assert fixed.GOALS == {"linformer": 0.25, "fnet": 0.15}
    assert (fixed.SLOPES[0], fixed.SLOPES[-1]) == (2048, 32768)


def test_rows(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = script("fixed_mixing")
    for name, size in {"T": 64, "DIM": 16, "SLOPES": (32, 64, 128)}.items():
        monkeypatch.setattr(fixed, name, size)
    small = {"k": 8, "hidden": 8}
    ours = {name: {key: small.get(key, value) for key, value in our.items()} for name, our in fixed.OURS.items()}
    monkeypatch.setattr(fixed, "OURS", ours)
    monkeypatch.setattr(script("harness"), "RESULTS", tmp_path)
    monkeypatch.setattr(fixed, "gate", lambda *tests: None)
    monkeypatch.setattr(sys, "argv", ["fixed_mixing.py", "--quick"])
    fixed.main()
    (row,) = map(json.loads, (tmp_path / "fixed_mixing.jsonl").read_text().splitlines())
    assert set(row["ms_median_quartiles"]) == {*fixed.OURS, *fixed.peers()}
    assert set(row["peak_bytes"]) == set(row["ms_median_quartiles"])
    assert set(row["met"]) == set(fixed.GOALS)
    slopes = [json.loads(line) for line in (tmp_path / "slopes.jsonl").read_text().splitlines()]
    assert {slope["system"] for slope in slopes} == set(fixed.GOALS)
    assert all(slope["n"] == [[32, 64, 128], 16] for slope in slopes)


def test_what_is_not_installed_is_left_out(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers.models.fnet.modeling_fnet", None)
    assert script("fixed_mixing").peers() == {}
    assert "transformers is not installed: no time of its FNet" in capsys.readouterr().err
