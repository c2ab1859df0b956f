import random
import re

import pytest

from seqloom.report.figures import heat
from seqloom.report.figures.cells import averaged, strokes
from seqloom.report.figures.palette import contrast
from seqloom.report.figures.ramps import STEPS, fill
from tests.report.figures.drawn import SVG, outside, overlapping, parsed, texts

NAN = float("nan")


def drawn(values: list[list[float]], signed: bool = False, labels: list[str] | None = None) -> str:
    return heat(values, title="Taps", description="One a lag.", x="channel", y="lag", signed=signed, labels=labels)


def noise(rows: int, columns: int) -> list[list[float]]:
    draw = random.Random(0)
    return [[draw.random() for _ in range(columns)] for _ in range(rows)]


def covered(svg: str) -> dict[tuple[int, int], str]:
    """The colour of each cell (row, column)."""
    group = next(one for one in parsed(svg).iter(f"{SVG}g") if one.get("class") == "cells")
    return {
        (int(row), int(column) + k): path.attrib["stroke"]
        for path in group
        for column, row, length in re.findall(r"M(\d+) (\d+)h(\d+)", path.attrib["d"])
        for k in range(int(length))
    }


def test_averaging_is_exact() -> None:
    values = [[1.0, 2.0, 3.0], [5.0, 6.0, NAN], [7.0, 8.0, NAN]]
    assert averaged(values, 2) == ([[3.5, 3.0], [7.5, None]], 2, 2)
    assert averaged(values, 3) == ([[1, 2, 3], [5, 6, None], [7, 8, None]], 1, 1)


def test_neighbours_of_one_colour_are_one_stroke() -> None:
    assert strokes([[1, 1, 2], [None, 1, 1]]) == {1: "M0 0h2M1 1h2", 2: "M2 0h1"}


def test_every_cell_has_the_colour_of_its_value() -> None:
    cells = covered(drawn([[0, 1, 2], [3, NAN, 4]]))
    assert set(cells) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)}
    assert cells[0, 0] == fill(0, signed=False)
    assert cells[0, 2] == fill(STEPS // 2, signed=False)
    assert cells[1, 2] == fill(STEPS, signed=False)
    cells = covered(drawn([[-4, 0, 2]], signed=True))
    assert [cells[0, k] for k in range(3)] == [fill(step, signed=True) for step in (-STEPS // 2, 0, STEPS // 4)]


def test_a_large_array_is_averaged_small_and_says_so() -> None:
    svg = drawn(noise(200, 97))
    assert "mean of 3 × 2 values" in parsed(svg)[1].text
    assert max(covered(svg)) == (66, 48)
    svg = drawn(noise(96, 96))
    assert parsed(svg)[1].text == "One a lag."
    assert len(covered(svg)) == 96 * 96
    assert len(svg.encode()) < 150_000


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (1, 64), (64, 1), (32, 32), (500, 300), (32, 2000)])
def test_words_neither_overlap_nor_leave_the_figure(rows: int, columns: int) -> None:
    svg = drawn(noise(rows, columns))
    assert overlapping(parsed(svg)) == []
    assert outside(parsed(svg)) == []
    assert "nan" not in svg


def test_labels_are_shown_where_they_fit() -> None:
    words = ["Once", " upon", "\n", " ", " a<b", " antidisestablishmentarianism"]
    shown = texts(parsed(drawn(noise(6, 6), labels=words)))
    assert {"Once", "upon", "⏎", "␣", "a<b"} <= set(shown)
    assert shown.count("upon") == 2
    assert any(word.startswith("antidis") and word.endswith("…") for word in shown)
    crowded = drawn(noise(60, 60), labels=["word"] * 60)
    assert "word" not in texts(parsed(crowded))
    for svg in (drawn(noise(6, 6), labels=words), drawn(noise(30, 30), labels=["word"] * 30)):
        assert overlapping(parsed(svg)) == []
        assert outside(parsed(svg)) == []


def test_the_bar_names_its_ends() -> None:
    assert {"−1.0", "−0.5", "0", "0.5", "1.0"} <= set(texts(parsed(drawn([[-1.0, 0.3]], signed=True))))
    assert {"0", "20k", "100k"} <= set(texts(parsed(drawn([[0, 100_000]]))))
    assert "0" in texts(parsed(drawn([[0, 0]])))


def test_the_ramps_keep_the_order_in_grey() -> None:
    sequential = [contrast("#ffffff", fill(step, signed=False)) for step in range(STEPS + 1)]
    assert sequential == sorted(sequential)
    for sign in (-1, 1):
        half = [contrast("#ffffff", fill(sign * step, signed=True)) for step in range(STEPS // 2 + 1)]
        assert half == sorted(half)
        assert half[-1] > 7


@pytest.mark.parametrize(
    ("values", "signed", "labels", "message"),
    [([], False, None, "figure “Taps”: the array has no values"), ([[]], False, None, "the array has no values"),
     ([[1], [1, 2]], False, None, "differ in length"), ([[NAN]], False, None, "no finite value"),
     ([[1, -2]], False, None, "holds -2; values below 0 need signed=True"),
     ([[1, 2]], False, ["a", "b"], "2 labels for an array of 1 × 2")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(
    values: list[list[float]], signed: bool, labels: list[str] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(values, signed, labels)
