"""The table of recalled pairs says what its rows say."""

import json
from pathlib import Path
from typing import Any

from seqloom_studies.recall import recalled


def answers(mixer: str, dim: int, pairs: int, lr: float, accuracy: float | None, **more: Any) -> dict[str, Any]:
    asked = {"probe": "mqar", "settings": {"pairs": pairs}, "distance": None, "accuracy": accuracy, "state_bytes": 8}
    return {"mixer": mixer, "dim": dim, "lr": lr, "seed": 0, "depth": 2, "batch": 64, "batches": 3000} | asked | more


def test_without_rows_there_is_nothing(tmp_path: Path) -> None:
    assert recalled.section(tmp_path) is None


def test_the_best_rate_of_each_cell_is_shown(tmp_path: Path) -> None:
    rows = [
        answers("gla", 32, 4, 0.001, 0.5),
        answers("gla", 32, 4, 0.003, None, failed="NaN"),
        answers("gru", 32, 4, 0.001, 0.25),
        answers("gru", 32, 4, 0.01, 0.999, batches=300),
        answers("gru", 32, 4, 0.003, 0.995, batches=200),
        answers("gru", 32, 16, 0.003, 0.25, state_bytes=1024),
        answers("gru", 32, 16, 0.003, 1.0, distance=[1, 2]),
        answers("gru", 32, 16, 0.003, 1.0, probe="parity"),
        answers("gru", 32, 16, 0.003, 1.0, depth=1),
    ]
    (tmp_path / recalled.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = recalled.section(tmp_path) or ""
    assert "2 layers, 64 rows a batch, trained to 99% right or for 3,000 batches" in text
    assert "the best of 0.001, 0.003, 0.01 where several were tried" in text
    assert text.splitlines()[-4:] == [
        "| mixer | dim | 4 pairs | 16 pairs | memory |",
        "| --- | --- | --- | --- | --- |",
        "| `gru` | 32 | 99.5% (200, 0.003) | 25.0% (3,000, 0.003) | 1.02 kB |",
        "| `gla` | 32 | 50.0% (3,000, 0.001) |  | 8 bytes |",
    ]


def test_seeds_are_averaged_and_not_chosen(tmp_path: Path) -> None:
    rows = [
        answers("gru", 32, 4, 0.001, 1.0, batches=100),
        answers("gru", 32, 4, 0.001, None, seed=1),
        answers("gru", 32, 4, 0.003, 0.7),
    ]
    (tmp_path / recalled.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = recalled.section(tmp_path) or ""
    assert "means over at most 2 seeds" in text
    assert text.splitlines()[-1] == "| `gru` | 32 | 70.0% (3,000, 0.003) | 8 bytes |"
