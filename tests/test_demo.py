"""What `make demo` promises, read from its output in runs/demo; `make test-all` runs it before."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.demo

KEPT = Path(__file__).parent.parent / "runs" / "demo" / "full" / "comparison.json"


def test_every_model_learned_the_grammar() -> None:
    written = json.loads(KEPT.read_text())
    rows = {each["name"]: each["row"] for each in written["contenders"]}
    assert set(rows) == {"attention-heads=4", "he", "gated_delta", "gru"}
    for name, row in rows.items():
        assert written["text"]["floor"] < row["held-out loss"] < written["text"]["unigram"], name
        assert row["grammatical"] >= 0.5, name
        assert row["agreeing"] <= row["grammatical"], name


def test_the_report_is_there() -> None:
    page = (KEPT.parent / "report.html").read_text(encoding="utf-8")
    assert "gated_delta" in page
    assert len(page.encode()) < 6e6
