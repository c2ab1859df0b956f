"""The table of what one layer can track says what its rows say."""

import json
from pathlib import Path
from typing import Any

from seqloom_studies.recall import tracked


def answers(mixer: str, probe: str, seed: int, accuracy: float, batches: int, **more: Any) -> dict[str, Any]:
    sizes = {"settings": {"length": 8}, "test": {"length": 40}, "dim": 16, "lr": 0.003, "state_bytes": 1024}
    shared = {"chance": 0.5, "depth": 1, "distance": None, "seed": seed, "batches": batches, "accuracy": accuracy}
    return {"mixer": mixer, "probe": probe, **sizes, **shared, **more}


def test_a_model_is_named_as_on_the_command_line() -> None:
    assert [tracked.model_name(name) for name in ("gru", "a-b=1-c=2")] == ["`gru`", "`a:b=1,c=2`"]


def test_without_rows_there_is_nothing(tmp_path: Path) -> None:
    assert tracked.section(tmp_path) is None


def test_each_mixer_has_its_shares_over_seeds(tmp_path: Path) -> None:
    rows = [
        answers("gla", "parity", 0, 0.5, 3000),
        answers("gru", "parity", 0, 1.0, 100),
        answers("gru", "swaps", 0, 0.9, 1800, chance=0.02),
        answers("gru", "swaps", 1, 1.0, 900, chance=0.02),
        answers("gru", "swaps", 1, 0.1, 900, distance=[1, 1]),
        answers("gru", "swaps", 1, 0.1, 900, depth=2),
        answers("gru", "mqar", 0, 0.1, 1),
    ]
    (tmp_path / tracked.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = tracked.section(tmp_path) or ""
    assert "trained on rows of 8 tokens until these are solved or for 3,000 batches" in text
    assert "asked about rows of 40" in text
    assert "at most 50.0% and 2.0%" in text
    table = [line for line in text.splitlines() if line.startswith("| `g")]
    assert table == [
        "| `gru` | 1.02 kB | 100.0% | 100 | 1 | 95.0% (90.0% to 100.0%) | 900 to 1,800 | 2 |",
        "| `gla` | 1.02 kB | 50.0% | 3,000 | 1 |  |  |  |",
    ]
