"""A chart's specification holds the numbers of its rows and is valid Vega-Lite; visible names do not overlap."""

import csv
import io
import random
import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as xml

import pytest

alt = pytest.importorskip("altair", reason="altair is not installed")

from seqloom.report.charts.chart import Axis, Chart, Choice, Table, filename, round_number  # noqa: E402
from seqloom.report.charts.curves import curves, spread  # noqa: E402
from seqloom.report.charts.draw import svg  # noqa: E402
from seqloom.report.charts.picture import (  # noqa: E402
    DEPTHS,
    colors,
    picture,
    pixel_lines,
    png,
)
from seqloom.report.charts.points import NARROWEST, _boxes, _overlap, _pixels, points, sides  # noqa: E402
from seqloom.report.charts.reach import grid  # noqa: E402
from seqloom.report.charts.style import DARK, SERIES, styles  # noqa: E402

X, Y = Axis("batches", "batches"), Axis("loss", "loss (nats per token)")


def ranges(specification: dict[str, Any]) -> list[tuple[float, float]]:
    """What the vertical axes show."""
    axes = [part["encoding"]["y"] for part in layers(specification) if "y" in part.get("encoding", {})]
    return [tuple(axis["scale"]["domain"]) for axis in axes if "scale" in axis]


def table(models: int, seeds: bool = True) -> Table:
    rows = [
        [f"mixer_{model}", batch, 4 + model / 10 + 1 / batch, *([3.9, 5.5] if seeds else [])]
        for model in range(models)
        for batch in (1, 2, 3)
    ]
    return Table(["model", "batches", "loss", *(["lowest seed", "highest seed"] if seeds else [])], rows)


def layers(specification: dict[str, Any]) -> list[dict[str, Any]]:
    inside = [part for each in specification.get("layer", []) for part in layers(each)]
    return [specification, *inside]


@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 8, 9, 40])
def test_curves_hold_the_rows_and_are_valid(models: int) -> None:
    rows = table(models)
    styles_by_name = styles([f"mixer_{at}" for at in range(models)])
    raw = dict.fromkeys(styles_by_name, 2.0)
    drawn = curves(rows, X, Y, styles_by_name, levels=[("floor", 3.5)], raw=raw)
    chart = Chart("c", "h", "d", {"rows": rows}, [Choice("a", lambda: drawn)])
    whole = chart.specification()
    alt.Chart.from_dict(whole)  # checks it against the schema of Vega-Lite
    read = list(csv.reader(io.StringIO(whole["datasets"]["rows"])))
    assert read == [list(rows.head), *([str(cell) for cell in row] for row in rows.rows)]
    scale = next(
        part["encoding"]["color"]["scale"]
        for part in layers(drawn)
        if "scale" in str(part.get("encoding", {}).get("color"))
    )
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        name: one.color for name, one in styles_by_name.items()
    }
    named = [part for part in layers(drawn) if part.get("mark", {}).get("type") == "text"]
    assert len(named) == (3 if models <= 8 else 2), "the level's name and its paper, and few models' at their lines"


@pytest.mark.slow
def test_a_level_is_in_the_range_that_is_shown() -> None:
    drawn = curves(
        table(2, seeds=False), X, Y, styles(["mixer_0", "mixer_1"]), levels=[("floor", 1.0), ("entropy", 9.0)]
    )
    domains = ranges(drawn)
    assert domains
    assert all(low > 1 and high < 9 for low, high in domains), "levels that are far away do not flatten the curves"
    texts = [part["encoding"]["text"] for part in layers(drawn) if "text" in part.get("encoding", {})]
    words = [text["value"] for text in texts if "value" in text]
    assert words == ["↓ floor 1", "↑ entropy 9"]
    near = curves(table(2, seeds=False), X, Y, styles(["mixer_0", "mixer_1"]), levels=[("floor", 4.2)])
    domains = ranges(near)
    assert all(low < 4.2 for low, _ in domains)


@pytest.mark.slow
def test_a_chart_of_points_is_valid_and_its_names_do_not_overlap() -> None:
    draw = random.Random(0)
    rows = [[f"mixer_{at}", draw.random(), 4 + draw.random(), None, None] for at in range(40)]
    result = Table(
        ["model", "ms a step", "loss", "lowest seed", "highest seed"], [*rows, ["alone", None, 4.0, None, None]]
    )
    x = Axis("ms a step", "ms a step")
    alt.Chart.from_dict(
        points(result, x, Y, styles([str(row[0]) for row in rows]), ["mixer_1"]) | {"datasets": {"rows": result.csv}}
    )
    positions = _pixels(result, x, Y)
    boxes = [_boxes(name, *positions[name])[side] for side, names in sides(result, x, Y, []).items() for name in names]
    assert len(boxes) > 10
    assert all(box[0] >= 0 and box[2] <= NARROWEST for box in boxes)
    for at, box in enumerate(boxes):
        assert not any(_overlap(box, other) for other in boxes[:at])


@pytest.mark.parametrize(
    ("values", "moved"),
    [([], []), ([50], [50]), ([-9], [0]), ([50, 50], [45, 55]), ([52, 50], [56, 46]), ([20, 80, 81], [20, 75.5, 85.5]),
     ([99, 98, 97], [100, 90, 80])],
)  # fmt: skip
def test_names_move_apart_and_stay_near(values: list[float], moved: list[float]) -> None:
    assert spread(values, 10, 0, 100) == pytest.approx(moved)


def test_names_that_cannot_all_fit_share_the_room() -> None:
    assert spread([5] * 5, 50, 0, 100) == pytest.approx([0, 25, 50, 75, 100])


def test_a_picture_is_a_png_of_one_pixel_per_cell() -> None:
    result = png([[0, 48], [None, 24]])
    assert result[:8] == b"\x89PNG\r\n\x1a\n"
    assert result[16:24] == bytes([0, 0, 0, 2, 0, 0, 0, 2])
    assert colors(DEPTHS)[0] == (0xF6, 0xF3, 0xE4)
    assert colors(DEPTHS)[-1] == (0x1D, 0x1A, 0x4B)
    brightness = [sum(color) for color in colors(DEPTHS)]
    assert all(one > other for one, other in pairwise(brightness))
    assert picture([[0.0, 0.0]], signed=False).startswith("data:image/png;base64,")
    assert picture([[-1.0, 1.0]], signed=True) == picture([[-2.0, 2.0]], signed=True)


def test_numbers_and_names() -> None:
    assert [round_number(value) for value in (1.0, 0.123456, None, float("nan"), 7)] == [1, 0.12346, None, None, 7]
    assert filename("ms a token at 65,536") == "ms-a-token-at-65-536"
    assert filename("…") == "chart"
    assert Table(["a"], [[None], ['x,"y"']]).csv == 'a\n""\n"x,""y"""\n'


@pytest.mark.slow
def test_a_chart_is_svg_on_both_papers() -> None:
    rows = table(2)
    styles_by_name = styles(["mixer_0", "mixer_1"])
    drawn = svg(Chart("c", "A title", "", {"rows": rows}, [Choice("", lambda: curves(rows, X, Y, styles_by_name))]))
    words = [each.text for each in xml.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"A title", "mixer_0", "mixer_1", "batches"} <= set(words)
    assert all(f'"{one}"' in drawn and f":{other}" in drawn for one, other in DARK.items() if one not in SERIES)
    cells = Table(["s", "t", "slope"], [[0, 0, 1.0], [0, 1, 0.5], [1, 1, 0.001]])
    drawn = svg(Chart("m", "A map", "", {"rows": cells}, [Choice("", lambda: grid("s", "t", "slope", 2, decades=3))]))
    assert drawn.count('aria-roledescription="rect mark"') == 3


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "bars"), [((None, None), 0), ((4.3, 4.5), 1)])
def test_a_bar_is_drawn_of_several_seeds_alone(ends: tuple[float | None, float | None], bars: int) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    head = ["model", "price", "loss", "lowest seed", "highest seed"]
    rows = Table(head, [["a", 1, 4.4, *ends], ["b", 2, 4.5, None, None]])
    axes, styles_by_name = (Axis("price", "price"), Axis("loss", "loss")), styles(["a", "b"])
    drawn = svg(
        Chart("p", "A price", "", {"rows": rows}, [Choice("", lambda: points(rows, *axes, styles_by_name, ["a"]))])
    )
    assert drawn.count('aria-roledescription="rule mark"') == bars
    height = re.search(r'height="(\d+)"', drawn)
    assert height is not None
    assert int(height[1]) < 600, "a bar from a mark to 0 would stretch the picture"


def test_the_pixels_of_the_numbers_of_a_picture() -> None:
    assert pixel_lines(range(12), (2, 2, 3)) == [[(0, 1, 2), (3, 4, 5)], [(6, 7, 8), (9, 10, 11)]]
    assert pixel_lines([0, 17, 34, 51], (2, 2, 1)) == [[(0, 0, 0), (17, 17, 17)], [(34, 34, 34), (51, 51, 51)]]
