"""patterns.py writes rows with the goals that were set and whether they are met."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Script = Callable[[str], Any]


@pytest.fixture
def patterns(script: Script, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark at a small size."""
    module = script("patterns")
    sizes = {"T": 64, "DIM": 16, "WINDOW": 8, "SLOPES": (32, 64, 128), "NEAR": 24, "FAR": 100}
    for name, size in sizes.items():
        monkeypatch.setattr(module, name, size)
    ours = {name: {**our, "window": 8} if "window" in our else our for name, our in module.OURS.items()}
    monkeypatch.setattr(module, "OURS", ours)
    return module


def test_the_goals_of_patterns_are_those_that_were_set(script: Script) -> None:
    patterns = script("patterns")
    assert (patterns.T, patterns.DIM, patterns.HEADS, patterns.WINDOW) == (8192, 256, 4, 256)
    assert patterns.GOALS == {"local": 0.15, "longformer": 0.15, "strided": 0.2}
    assert (patterns.PEAK, patterns.FAR) == (1.1, 65536)
    assert (patterns.SLOPES[0], patterns.SLOPES[-1]) == (2048, 32768)


@pytest.mark.slow
def test_rows_of_patterns(patterns: Any, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script("harness"), "RESULTS", tmp_path)
    monkeypatch.setattr(patterns, "gate", lambda *tests: None)
    monkeypatch.setattr(sys, "argv", ["patterns.py", "--quick"])
    patterns.main()
    sublayers, token = map(json.loads, (tmp_path / "patterns.jsonl").read_text().splitlines())
    assert set(sublayers["ms_median_quartiles"]) >= {*patterns.OURS, "torch's kernel, masked"}
    assert set(sublayers["peak_bytes"]) == set(sublayers["ms_median_quartiles"])
    assert set(sublayers["met"]) == set(patterns.GOALS)
    assert set(token["ms_median_quartiles"]) == {"24", "100"}
    assert token["goals"] == {"100": 1.05}
    slopes = [json.loads(line) for line in (tmp_path / "slopes.jsonl").read_text().splitlines()]
    assert [row["system"] for row in slopes[::2]] == list(patterns.GOALS)
    assert {row["quantity"] for row in slopes} == {"time of a sublayer", "bytes at the peak of a sublayer"}
    assert all(row["n"] == [[32, 64, 128], 16] for row in slopes)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "seen"), [("torch's kernel, masked", 8), ("local-attention", 9), ("x-transformers", 9)]
)
def test_other_mixers_look_as_many_tokens_back(patterns: Any, name: str, seen: int) -> None:
    """A token changes the outputs from its own position on, as many as the window has tokens."""
    if name not in patterns.peers(64):
        pytest.skip(f"{name} is not installed")
    peer, x = patterns.peers(64)[name].eval(), torch.randn(1, 64, 16)
    other = x.clone()
    other[0, 20] += 1

    def read(given: torch.Tensor) -> torch.Tensor:
        y = peer(given)
        return (y if isinstance(y, torch.Tensor) else y[0])[0]

    changed = ((read(x) - read(other)).abs().amax(1) > 1e-6).nonzero()[:, 0].tolist()
    assert changed == list(range(20, 20 + seen))


def test_a_missing_package_is_reported(
    patterns: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("local_attention", "x_transformers.x_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    assert not {"local-attention", "x-transformers"} & set(patterns.peers(64))
    assert "x-transformers is not installed: no time of it" in capsys.readouterr().err
