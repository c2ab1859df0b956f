"""docs/choose.md says what the rows of results/all.jsonl say (docs/making/choose.py)."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.making import choose
from tests.report.test_needs import NUMBERS, ROWS, SHARED, rows, seeded


@pytest.mark.slow
def test_the_page(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    assert choose.page(path) is None
    left_out = {"contender": "gone", **SHARED, "left_out": "dim 6 is not divisible by heads 4"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows(), {**left_out}]), encoding="utf-8")
    page = choose.page(path)
    assert page is not None
    assert "| **attention** (4.000, observed once); next: mamba (4.015), she (4.020), me (4.070), rnn (4.300) |" in page
    assert "| recall of pairs that were seen once | **attention** (100.0%); tied: mamba (98.5%) |" in page
    assert "| she | swim |" in page
    assert "| gone | be built at this size: dim 6 is not divisible by heads 4 |" in page
    assert "| wild | - | - |" in page
    assert "3 batches of 4 rows of 16 tokens, one seed, a hundred books; 2 cores, commit abc1234" in page
    assert "Each held-out loss was observed once. One seed has no interval and decides nothing" in page
    assert "A training loss is the median over the last 1 batches." in page
    assert "for 1,000 batches at most" in page
    several = choose.page(written(tmp_path, seeded(0.01))) or ""
    assert "from at least 3 seeds, a p below 0.05 after Holm's correction (Welch's procedure)" in several
    assert "| **attention** (4.000); tied: mamba (4.015), she (4.020), rnn (4.300) |" in several


def written(folder: Path, some: list[dict[str, Any]]) -> Path:
    path = folder / "some.jsonl"
    path.write_text("\n".join(map(json.dumps, some)), encoding="utf-8")
    return path


def test_many_ties_are_counted(tmp_path: Path) -> None:
    same = [{**rows()[0], "contender": f"m{at}"} for at in range(10)]
    assert "tied: m1 (90.000), m2 (90.000), m3 (90.000), m4 (90.000), m5 (90.000), m6 (90.000), 3 more" in (
        choose.page(written(tmp_path, same)) or ""
    )


def test_rows_are_those_of_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = {name: SHARED[name] for name in choose.SHARED}
    numbers = dict(zip(NUMBERS, ROWS["me"], strict=True))
    comparison: dict[str, Any] = {
        **shared,
        "text": {"description": "a hundred books"},
        "origin": {name: SHARED[name] for name in choose.ORIGIN} | {"more": 1},
        "contenders": [
            {
                "name": "me",
                "kind": "me",
                "row": numbers,
                "spread": {"held-out loss": [4.07]},
                "limitations": ["swim"],
                "samples": [],
            }
        ],
        "left_out": [{"name": "gone", "why": "no room"}],
    }
    (tmp_path / "comparison.json").write_text(json.dumps(comparison))
    monkeypatch.setattr(choose, "store", lambda out, path=tmp_path / "all.jsonl", real=choose.store: real(out, path))
    monkeypatch.setattr("sys.argv", ["choose", str(tmp_path)])
    assert choose.main() == 0
    me, gone = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    assert me == {
        "contender": "me",
        "kind": "me",
        **SHARED,
        **numbers,
        "held-out losses": [4.07],
        "limitations": ["swim"],
    }
    assert gone == {"contender": "gone", **SHARED, "left_out": "no room"}
    del comparison["left_out"]
    (tmp_path / "comparison.json").write_text(json.dumps(comparison))
    assert choose.main() == 2
    assert "make it with that" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["choose", str(tmp_path / "none")])
    assert choose.main() == 2


def test_the_page_is_of_today() -> None:
    made = choose.page()
    there = choose.PAGE.read_text(encoding="utf-8") if choose.PAGE.is_file() else None
    assert there == made, "make pages"
