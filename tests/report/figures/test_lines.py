import math
import random

import pytest

from seqloom.report.figures import Axis, Level, Series, lines
from seqloom.report.figures.frame import BOTTOM, TOP
from tests.report.figures.drawn import SVG, by_class, literal_colours, outside, overlapping, parsed, runs, texts

X, Y = Axis("batches"), Axis("cost (nats a token)")
NAN = float("nan")


def drawn(series: list[Series], x: Axis = X, y: Axis = Y, levels: list[Level] | None = None) -> str:
    return lines(series, title="Cost", description="by batches", x=x, y=y, levels=levels or [])


def many(count: int, places: int = 40, **more: bool) -> list[Series]:
    draw = random.Random(1)
    found = []
    for slot in range(count):
        y = [6 * (1 + k) ** -(0.1 + 0.004 * slot) + draw.gauss(0, 0.01) for k in range(places)]
        low, high = [v - 0.05 for v in y], [v + 0.05 for v in y]
        found.append(Series(f"mixer {slot}", [1 + 25 * k for k in range(places)], y, slot, low, high, **more))
    return found


def test_points_land_where_the_scale_says() -> None:
    root = parsed(drawn([Series("a", [0, 5, 10], [0, 1, 4], 0)]))
    ((start, middle, end),) = runs(by_class(root, "curve")[0])
    assert start[1] == BOTTOM
    assert end[1] == TOP
    assert middle[1] == pytest.approx(BOTTOM + (TOP - BOTTOM) / 4, abs=0.051)
    assert middle[0] == pytest.approx((start[0] + end[0]) / 2, abs=0.11)


def test_points_land_where_the_logarithmic_scale_says() -> None:
    root = parsed(drawn([Series("a", [1, 10, 1000], [1, 2, 4], 0)], Axis("operations", log=True), Axis("ms", log=True)))
    ((start, middle, end),) = runs(by_class(root, "curve")[0])
    assert middle[0] - start[0] == pytest.approx((end[0] - start[0]) / 3, abs=0.11)
    assert middle[1] - start[1] == pytest.approx((end[1] - start[1]) / 2, abs=0.11)


def test_ticks_stand_at_their_values() -> None:
    root = parsed(drawn([Series("a", [0, 100], [0, 4], 0)]))
    heights = {one.text: float(one.attrib["y"]) for one in root.iter(f"{SVG}text")}
    assert heights["2"] == pytest.approx((heights["0"] + heights["4"]) / 2, abs=20)
    assert {"0", "1", "2", "3", "4", "20", "100", "batches", "cost (nats a token)"} <= set(texts(root))


@pytest.mark.parametrize("gap", [None, NAN, math.inf, -math.inf])
def test_a_gap_splits_the_path(gap: float | None) -> None:
    svg = drawn([Series("a", range(6), [1, 2, gap, 3, gap, 4], 0)])
    assert [len(run) for run in runs(by_class(parsed(svg), "curve")[0])] == [2, 1, 1]
    assert "nan" not in svg
    assert "inf" not in svg


def test_a_band_has_the_gaps_of_either_side() -> None:
    series = Series("a", range(5), [1] * 5, 0, low=[0, 0, None, 0, 0], high=[2, 2, 2, 2, NAN])
    (band,) = by_class(parsed(drawn([series])), "band")
    assert band.attrib["d"].count("M") == 2
    assert not by_class(parsed(drawn([Series("a", range(2), [1, 2], 0)])), "band")


def test_the_band_and_the_levels_lie_within_the_field() -> None:
    root = parsed(drawn([Series("a", [0, 1], [4, 5], 0, low=[3, 4], high=[5, 7.5])], levels=[Level("entropy", 9.2)]))
    assert {"entropy", "10"} <= set(texts(root))
    (level,) = by_class(root, "level")
    assert TOP <= float(level.attrib["d"][1:].split("H")[0].split()[1]) <= BOTTOM


@pytest.mark.parametrize("count", [1, 2, 6, 8, 9, 12])
@pytest.mark.parametrize("log", [False, True])
def test_words_neither_overlap_nor_leave_the_figure(count: int, log: bool) -> None:
    svg = drawn(many(count), Axis("batches", log), Axis("cost (nats a token)", log), [Level("unigram entropy", 6.1)])
    root = parsed(svg)
    assert overlapping(root) == []
    assert outside(root) == []
    assert {f"mixer {slot}" for slot in range(count)} <= set(texts(root))


@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize(("first", "last"), [(20_000, 90_000), (99_000, 101_000), (0, 3000), (-5e-4, 7e-4)])
def test_the_numbers_of_the_outer_ticks_stay_inside(count: int, first: float, last: float) -> None:
    svg = drawn([Series(f"{slot}", [first, last], [1, 2], slot) for slot in range(count)])
    assert outside(parsed(svg)) == []
    assert overlapping(parsed(svg)) == []


def test_long_names_go_below() -> None:
    series = [Series(f"a mixer whose name is a sentence, number {k}", [0, 1], [k, k + 1], k) for k in range(3)]
    root = parsed(drawn(series))
    assert float(root.attrib["viewBox"].split()[3]) > 400
    assert overlapping(root) == []
    assert outside(root) == []


def test_lines_differ_without_colour() -> None:
    root = parsed(drawn(many(12)))
    shapes = [(one[0].attrib["d"], one[0].attrib["fill"] == "var(--paper)") for one in root.iter(f"{SVG}marker")]
    assert len(set(shapes)) == 12
    dashes = [one.get("stroke-dasharray") for one in by_class(root, "curve")]
    assert dashes == [None] * 6 + ["10 3 2 3"] * 6
    dashed = by_class(parsed(drawn(many(12, dashed=True))), "curve")
    assert not {one.attrib["stroke-dasharray"] for one in dashed} & set(dashes)


def test_marks_are_drawn_at_each_point() -> None:
    (curve,) = by_class(parsed(drawn([Series("a", range(9), range(9), 0, marks=True)])), "curve")
    assert curve.attrib["marker-mid"].startswith("url(#figure-")
    (curve,) = by_class(parsed(drawn([Series("a", range(9), range(9), 0)])), "curve")
    assert "marker-mid" not in curve.attrib


def test_texts_are_escaped_and_ids_are_of_the_content() -> None:
    evil = '<script>"&\x00\ud800</script>'
    svg = lines([Series(evil, [0, 1], [0, 1], 0)], title=evil, description=evil, x=Axis(evil), y=Axis(evil))
    root = parsed(svg)
    assert "<script" not in svg
    assert root[0].text == '<script>"&��</script>'
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"].split() == [root[0].attrib["id"], root[1].attrib["id"]]
    other = parsed(drawn([Series("a", [0, 1], [0, 2], 0)]))
    assert not {one.get("id") for one in root.iter()} & {one.get("id") for one in other.iter()} - {None}
    assert svg == lines([Series(evil, [0, 1], [0, 1], 0)], title=evil, description=evil, x=Axis(evil), y=Axis(evil))


def test_a_large_figure_is_small_and_names_its_colours() -> None:
    svg = drawn(many(12, 120, marks=True), levels=[Level("unigram entropy", 6.1)])
    assert len(svg.encode()) < 60_000
    assert literal_colours(svg) == set()


@pytest.mark.parametrize(
    ("series", "y", "message"),
    [([], Y, "figure “Cost”: there is no series"),
     ([Series("she", [], [], 0)], Y, "the series “she” has no finite point"),
     ([Series("she", [1], [NAN], 0)], Y, "the series “she” has no finite point"),
     ([Series("she", [1, 2], [1], 0)], Y, "“she” has 2 values of x and 1 of y"),
     ([Series("she", [1], [1], 0, low=[1])], Y, "the band of “she” needs both low and high"),
     ([Series("she", [1, 2], [1, -2], 0)], Axis("cost", log=True), "figure “Cost”: .* cannot show -2"),
     ([Series("she", [1], [1], 0, [0], [2])], Axis("cost", log=True), "cannot show 0")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(series: list[Series], y: Axis, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(series, y=y)
