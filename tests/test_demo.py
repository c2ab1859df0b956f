"""What `make demo` promises, read from what it left in runs/demo; `make test-all` runs it right before."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.demo

TABLE = Path(__file__).parent.parent / "runs" / "demo" / "full" / "table.json"


def test_every_model_learned_the_grammar() -> None:
    said = json.loads(TABLE.read_text())
    names = {row["model"] for row in said["rows"]}
    assert names == {"attention-heads=32", "attention-heads=1", "she", "he", "we", "me"}
    for row in said["rows"]:
        assert said["floor"] < row["held-out cost"] < said["unigram_entropy"], row
        assert row["grammatical"] >= 0.5, row
        assert row["agreeing"] <= row["grammatical"], row
