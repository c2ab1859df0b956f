"""The table of the board's models at a larger size says what its rows say."""

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom_studies.board import larger

SPANS = dict.fromkeys((*larger.SPANS, larger.BEYOND), 1.5)
SIZES = ["model.dim=64", "model.depth=3", "model.context=128", "training.batch=4", "training.precision=bf16"]


def trained(contender: str, bits_per_byte: float | None, **more: Any) -> dict[str, Any]:
    row = {"contender": contender, "sizes": SIZES, "bits_per_byte": bits_per_byte, "failed": None, "lr": 0.001}
    row |= {"by_position": SPANS, "by_position_long": SPANS, "parameters": 123456, "state_bytes": {"2048": 4096}}
    return row | {"batches": 1000, "tokens": {"training": 256000}, "machine": "a GPU", "seed": 0, **more}


def write(path: Path, *rows: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_without_rows_there_is_nothing(tmp_path: Path) -> None:
    assert larger.section(tmp_path) is None
    write(tmp_path / larger.TRAININGS, trained("he", None, failed="the loss is NaN"))
    assert larger.section(tmp_path) is None


def test_the_best_is_first_and_has_its_newest_time(tmp_path: Path) -> None:
    write(tmp_path / larger.TRAININGS, trained("attention", 1.7), trained("he", 1.6))
    assert larger.STEPS not in (larger.section(tmp_path) or "")
    raced = [{"ms_median_quartiles": {"he": [ms, ms - 1, ms + 1]}, "sizes": SIZES} for ms in (90.0, 70.0)]
    write(tmp_path / larger.STEPS, *raced, {**raced[0], "sizes": ["model.dim=32"]})
    text = larger.section(tmp_path) or ""
    assert "dim 64, depth 3, context 128; 1,000 batches of 512 tokens in bf16, 2.0 passes over" in text
    assert "learning rate 0.001, 0.1 million parameters" in text
    assert text.splitlines()[-2:] == [
        "| HE | 1.600 | 1.500 | 1.500 | 1.500 | 1.500 | 4.10 kB | 70 ms (69, 71) |",
        "| llama attention | 1.700 | 1.500 | 1.500 | 1.500 | 1.500 | 4.10 kB |  |",
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"lr": 0.002}, "differ in sizes or batches or lr"),
        ({"seed": 1}, "differ"),
        ({"contender": "he"}, "has a model twice"),
    ],
)
def test_rows_of_other_settings_are_an_error(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    write(tmp_path / larger.TRAININGS, trained("he", 1.6), {**trained("attention", 1.7), **more})
    with pytest.raises(ValueError, match=message):
        larger.section(tmp_path)
