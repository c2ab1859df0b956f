"""The board in the docs: nothing without rows; decisions, table and charts with them."""

import json
from pathlib import Path

import pytest

from seqloom.report.charts.draw import svg
from seqloom_studies.board import section as board
from tests.studies.board.test_page import row

BITS = {"attention": [2.00, 2.02, 1.98], "he": [1.90, 1.93, 1.87]}


def kept(name: str, seed: int, bits: float, rate: float = 2e-3, validation: float = 1.0) -> dict:
    """A row with all that the file must have."""
    more = {"ffn": 1, "embedding": 1, "seconds": 1.0, "training": 1.0, "loss": 1.0, "bits_per_byte_long": 1.0}
    return {
        **row(name, seed, bits, rate, validation),
        **more,
        "command": "seqloom study board",
        "cell": f"{name}/{seed}",
    }


def test_without_rows_there_is_nothing(tmp_path: Path) -> None:
    assert board.section(tmp_path) is None
    assert board.lines(tmp_path) == []
    assert board.pictures(tmp_path) == {}
    assert board.result("he", tmp_path) is None


@pytest.mark.slow
def test_with_rows_there_are_decisions_a_table_and_pictures(tmp_path: Path) -> None:
    made = [kept(name, seed, bits) for name, bit in BITS.items() for seed, bits in enumerate(bit)]
    made += [kept(name, 0, 1.0, rate, 1.5) for name in BITS for rate in (1e-3, 4e-3)]
    (tmp_path / "board.jsonl").write_text("".join(json.dumps(each) + "\n" for each in made))
    text = board.section(tmp_path)
    assert text is not None
    assert "| HE | 1.900 ± 0.075 (3) | -0.100 ± 0.025 |" in text
    assert "1. HE or llama attention at equal parameters? HE minus llama attention: -0.1000" in text
    assert "2. gated_delta or llama attention at equal parameters? Not trained yet" in text
    assert "Not finished: gated_delta" in text
    pictures = board.pictures(tmp_path)
    assert list(pictures) == ["board-state.svg"]
    assert "llama attention" in svg(pictures["board-state.svg"])
    assert board.result("attention", tmp_path) == "2.000 ± 0.050 bits per byte on the test books, 3 seeds"
    assert board.result("he", tmp_path) == (
        "1.900 ± 0.075 bits per byte on the test books, 3 seeds; to llama attention -0.100 ± 0.025"
    )
    assert board.result("gla", tmp_path) is None


def test_rows_that_the_charts_leave_out_are_named(tmp_path: Path) -> None:
    def section(*names: str) -> str:
        rows = [kept(name, seed, 2.0 + n) for n, name in enumerate(("attention", "he", *names)) for seed in range(3)]
        (tmp_path / "board.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
        board.rows.cache_clear()
        return board.section(tmp_path) or ""

    assert "leave out" not in section()
    text = section("me", "identity")
    assert "The charts of bits per byte leave out ME and identity: their values" in text
    drawn = svg(board.pictures(tmp_path)["board-state.svg"])
    assert ">HE<" in drawn
    assert ">ME<" not in drawn
