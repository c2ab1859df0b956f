"""Maps of reach: the meaning of their colors, and that each cell has its own position."""

import xml.etree.ElementTree as xml

import pytest

from seqloom.report.charts.draw import svg
from seqloom.report.charts.reach import chart, steps, thumbnail

SVG = "{http://www.w3.org/2000/svg}"
TRIANGLE = [[float(s <= t) for s in range(5)] for t in range(5)]


def test_colors_are_a_logarithm() -> None:
    assert steps([[1.0, 0.0], [1e-3, 1e-12]]) == [[48, None], [0, None]]
    assert steps([[1.0, 0.0], [10**-1.5, 1.0]]) == [[48, None], [24, 48]]
    assert steps([[2.0, 0.0], [1e-5, 2.0]]) == [[48, None], [0, 48]]
    with pytest.raises(ValueError, match="no slope"):
        steps([[0.0, 0.0], [0.0, 0.0]])


def test_a_thumbnail_is_a_png() -> None:
    assert thumbnail(TRIANGLE).startswith(b"\x89PNG")


@pytest.mark.slow
def test_each_cell_of_a_map_has_its_own_position() -> None:
    drawn = xml.fromstring(svg(chart(TRIANGLE, "a", "b"), width=300))
    cells = [each for each in drawn.iter(f"{SVG}path") if "input s" in each.get("aria-label", "")]
    assert len(cells) == len({cell.get("d") for cell in cells}) == 15
