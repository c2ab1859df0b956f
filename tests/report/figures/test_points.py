import random

import pytest

from seqloom.report.figures import Axis, Point, front, points
from tests.report.figures.drawn import by_class, literal_colours, outside, overlapping, parsed, runs, texts

X, Y = Axis("operations a token", log=True), Axis("held-out cost (nats a token)")


def drawn(marks: list[Point], best: list[str] | None = None, x: Axis = X) -> str:
    return points(marks, title="Cost by price", description="Lower is better.", x=x, y=Y, front=best or [])


def cloud(count: int, seed: int, spread: float) -> list[Point]:
    draw = random.Random(seed)
    return [
        Point(f"mixer {k} (matched)", 10 ** draw.gauss(6, spread), draw.gauss(4.5, 0.2), k, 4.0, 5.0)
        for k in range(count)
    ]


@pytest.mark.parametrize(("count", "spread"), [(1, 1.0), (5, 0.3), (14, 0.4), (14, 0.01), (20, 0.5), (60, 0.3)])
def test_labels_neither_overlap_nor_leave_the_figure(count: int, spread: float) -> None:
    for seed in range(5 if count < 30 else 1):
        marks = cloud(count, seed, spread)
        root = parsed(drawn(marks))
        assert overlapping(root) == []
        assert outside(root) == []
        assert {one.name for one in marks} <= set(texts(root))


def test_points_land_where_the_scale_says() -> None:
    svg = drawn([Point("a", 10, 4, 0), Point("b", 100, 5, 1), Point("c", 1000, 6, 2)])
    places = [tuple(map(float, one.split(")")[0].split())) for one in svg.split("translate(")[1:]]
    assert places[1][0] == pytest.approx((places[0][0] + places[2][0]) / 2, abs=0.11)
    assert places[1][1] == pytest.approx((places[0][1] + places[2][1]) / 2, abs=0.11)
    assert places[0][1] > places[2][1]


def test_the_front_is_a_staircase() -> None:
    marks = [Point("a", 1, 3, 0), Point("b", 2, 2, 1), Point("c", 4, 1, 2), Point("d", 4, 3, 3)]
    svg = drawn(marks, front([(one.name, one.x, one.y) for one in marks]))
    (steps,) = by_class(parsed(svg), "front")
    ((a, under_b, b, under_c, c),) = runs(steps)
    assert a[1] == under_b[1]
    assert under_b[0] == b[0]
    assert b[1] == under_c[1]
    assert under_c[0] == c[0]
    assert a[1] < b[1] < c[1]
    assert "On the Pareto front: a, b, c." in parsed(svg)[1].text


def test_an_interval_is_drawn_where_both_ends_are_known() -> None:
    marks = [Point("a", 1, 3, 0, 2, 4), Point("b", 2, 2, 1, 1, None), Point("c", 3, 2, 2, float("nan"), 3)]
    assert len(by_class(parsed(drawn(marks)), "interval")) == 1


def test_points_without_finite_values_are_named_not_drawn() -> None:
    svg = drawn([Point("a", 1, 3, 0), Point("b", float("nan"), 2, 1)])
    assert parsed(svg)[1].text == "Lower is better. Without finite values: b."
    assert "b" not in texts(parsed(svg))
    assert "nan" not in svg.replace("Without finite", "")


def test_colours_are_named() -> None:
    assert literal_colours(drawn(cloud(14, 0, 0.4))) == set()


@pytest.mark.parametrize(
    ("marks", "best", "message"),
    [([], [], "figure “Cost by price”: there is no point"),
     ([Point("a", float("inf"), 1, 0)], [], "there is no point with finite coordinates"),
     ([Point("a", 1, 1, 0)], ["z"], "the front names “z”"),
     ([Point("a", -1, 1, 0)], [], "figure “Cost by price”: the axis “operations a token” .* cannot show -1")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(marks: list[Point], best: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(marks, best)


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_brute_force_finds(seed: int) -> None:
    draw = random.Random(seed)
    cloud = [(str(k), float(draw.randrange(8)), float(draw.randrange(8))) for k in range(draw.randrange(25))]

    def beaten(x: float, y: float) -> bool:
        return any(a <= x and b <= y and (a < x or b < y) for _, a, b in cloud)

    found = front(cloud)
    assert set(found) == {name for name, x, y in cloud if not beaten(x, y)}
    assert [cloud[int(name)][1] for name in found] == sorted(cloud[int(name)][1] for name in found)


def test_the_front_leaves_out_what_is_not_finite() -> None:
    assert front([("a", 1, float("nan")), ("b", float("-inf"), 0), ("c", 2, 2)]) == ["c"]
