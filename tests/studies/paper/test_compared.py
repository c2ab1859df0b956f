"""The table of a figure: intervals over seeds, differences to the baseline, and the smallest significant difference."""

from pathlib import Path

import pytest

from seqloom.core.statistics import contrast, mean_of
from seqloom_studies.paper.compared import PEER, Compared
from seqloom_studies.paper.page import write as write_page
from seqloom_studies.paper.page_table import columns, table_rows
from tests.studies.paper.made_up import Losses, plate, rows, write

THREE: Losses = {PEER: [4.2, 4.21, 4.19], "she": [4.1, 4.12, 4.11], "he": [4.19, 4.2, 4.3]}


@pytest.mark.slow
def test_the_columns_of_several_seeds(tmp_path: Path) -> None:
    made = plate(tmp_path, THREE)
    names = [column.name for column in columns(made)]
    assert names[:7] == [
        "training loss", "± training", "held-out loss", "± held-out", "to baseline", "± to baseline", "adjusted p",
    ]  # fmt: skip
    cells = {line.series: dict(zip(names, row, strict=True)) for line, row in table_rows(made)}
    apart = contrast({"a": 1, "b": -1}, {"a": dict(enumerate(THREE["she"])), "b": dict(enumerate(THREE[PEER]))})  # type: ignore[arg-type]
    assert apart is not None
    assert apart.p is not None
    assert cells["she"]["± held-out"] == mean_of([4.1, 4.12, 4.11]).half
    assert cells["she"]["to baseline"] == pytest.approx(apart.mean)
    assert cells["she"]["± to baseline"] == pytest.approx(apart.half)
    assert cells["she"]["adjusted p"] == pytest.approx(2 * apart.p), "Holm over two differences"
    assert cells[PEER]["to baseline"] is cells[PEER]["adjusted p"] is None
    assert Compared(made, "held_out").smallest_difference in write_page(tmp_path / "fig8.jsonl").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
def test_the_page_rounds_to_three_decimals_and_names_a_small_p(tmp_path: Path) -> None:
    write(tmp_path, rows({PEER: [4.2, 4.2001, 4.1999], "she": [4.1, 4.1001, 4.1]}))
    html = write_page(tmp_path / "fig8.jsonl").read_text(encoding="utf-8")
    assert ">-0.100</td>" in html
    assert ">0.000</td>" in html
    assert ">below 0.001</td>" in html
    assert "e-05</td>" not in html


def test_one_seed_shows_no_interval(tmp_path: Path) -> None:
    made = plate(tmp_path, {PEER: [4.2], "she": [4.1]})
    names = [column.name for column in columns(made)]
    assert not [name for name in names if "±" in name or "adjusted" in name]
    assert "to baseline" in names
    assert Compared(made, "held_out").smallest_difference == (
        f"No difference to {PEER} can be called significant: one run of each."
    )


def test_a_sweep_is_compared_at_the_same_value(tmp_path: Path) -> None:
    losses: Losses = {
        (PEER, 8): [5.0, 5.1, 5.0], (PEER, 16): [4.0, 4.1, 4.0], ("he", 8): [None, None, None],
        ("she", 8): [4.9, 4.8, 4.9], ("she", 16): [4.5, 4.4, 4.5],
    }  # fmt: skip
    result = Compared(plate(tmp_path, losses, over="context"), "training")
    assert {key: round(one.estimate.mean, 9) for key, one in result.differences.items()} == {
        ("she", 8): round(-0.5 / 3, 9), ("she", 16): round(1.3 / 3, 9),
    }  # fmt: skip
    assert "(she at context 8)" in result.smallest_difference


def test_without_32_heads_the_first_is_the_baseline(tmp_path: Path) -> None:
    result = Compared(plate(tmp_path, {"she": [4.0, 4.1, 4.0], "he": [4.2, 4.3, 4.1]}), "training")
    assert (result.baseline, list(result.differences)) == ("she", [("he", None)])
    alone = Compared(plate(tmp_path / "alone", {"she": [4.0]}), "training")
    assert alone.smallest_difference == ""


def test_cells_that_are_not_finished_are_in_no_interval(tmp_path: Path) -> None:
    made = plate(tmp_path, {PEER: [4.0, 4.1, None], "she": [4.0, None, None]})
    result = Compared(made, "training")
    assert [result.mean(line).seeds for line in made.lines] == [2, 1]  # type: ignore[union-attr]
    assert dict(zip([one.name for one in columns(made)], table_rows(made)[0][1], strict=True))["training loss"] == 4.05


def test_rows_of_a_figure_may_be_pairs(tmp_path: Path) -> None:
    write(tmp_path, rows(THREE, paired=True))
    assert plate(tmp_path / "pairs", THREE, paired=True).figure.paired
    assert not plate(tmp_path / "apart", THREE).figure.paired
