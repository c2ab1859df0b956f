"""benchmarks/memory_held_out.py trains each mixer with and without its memory and scores both runs both ways."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.training.settings import resolve


def test_rows(script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script("harness"), "RESULTS", tmp_path / "results")
    memory = script("memory_held_out")
    monkeypatch.setattr(memory, "gate", lambda *tests: None)
    mixer = "{kind: compressive, heads: 2, memory: 4, compressed: 3, rate: 2}"
    monkeypatch.setitem(memory.MIXERS, "compressive", mixer)
    smaller = (
        "model.dim=8",
        "model.depth=2",
        "model.context=16",
        "training.batch=4",
        "data.vocab=300",
        "model.std=0.3",
    )
    words = ["stories:30:0", "--out", str(tmp_path / "out"), "--batches", "3", "--mixers", "compressive"]
    sets = [word for change in smaller for word in ("--set", change)]
    monkeypatch.setattr("sys.argv", ["memory_held_out.py", *words, *sets])
    memory.main()
    without, carried = [
        json.loads(line) for line in (tmp_path / "results/memory_held_out.jsonl").read_text().splitlines()
    ]
    assert (without["trained"], carried["trained"]) == ("none", "carry")
    assert without["tokens_back"] == carried["tokens_back"] == 2 * (4 + 2 * 3)
    assert carried["tokens_a_batch"] == 64
    assert carried["gain"] == pytest.approx(without["held_out_in_windows"] - carried["held_out_read_on"], abs=1e-4)
    assert len({row[of] for row in (without, carried) for of in ("held_out_in_windows", "held_out_read_on")}) == 4
    assert str(tmp_path) not in carried["command"]
    for name in memory.MIXERS:
        assert resolve(memory.PRESET, [f"model.mixer={memory.MIXERS[name]}"]).training.memory == "carry"
