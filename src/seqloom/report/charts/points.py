"""Loss against a price: a mark per model with the interval of its seeds, and the Pareto front as a step line."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from seqloom.report.charts.chart import Axis, Spec, Table
from seqloom.report.charts.encodings import HEIGHT, across, color, data, has_numbers, shape, tooltip
from seqloom.report.charts.style import INK, PAPER, SIZE, LineStyle

NARROWEST = 420
"""the width in pixels for which names are placed; on a wider chart the marks are further apart"""
SIDES: dict[str, dict[str, Any]] = {
    "right": {"align": "left", "baseline": "middle", "dx": 9, "dy": 0},
    "left": {"align": "right", "baseline": "middle", "dx": -9, "dy": 0},
    "above": {"align": "center", "baseline": "bottom", "dx": 0, "dy": -9},
    "below": {"align": "center", "baseline": "top", "dx": 0, "dy": 9},
    "above left": {"align": "right", "baseline": "bottom", "dx": 9, "dy": -9},
    "below left": {"align": "right", "baseline": "top", "dx": 9, "dy": 9},
    "above right": {"align": "left", "baseline": "bottom", "dx": -9, "dy": -9},
    "below right": {"align": "left", "baseline": "top", "dx": -9, "dy": 9},
}
Box = tuple[float, float, float, float]
"""left, top, right, bottom in pixels; y grows downwards"""


def points(table: Table, x: Axis, y: Axis, styles: Mapping[str, LineStyle], front: Sequence[str]) -> Spec:
    """A mark for each row of data called `rows` (model, `x`, `y`, lowest seed, highest seed); `front` has names.

    Names are placed where they cover neither another name nor a mark; a name without room is shown under the pointer.
    """
    models = set(table.column("model"))
    styles = {name: style for name, style in styles.items() if name in models}
    rows = (
        data("rows")
        .transform_filter(has_numbers(x.column, y.column))
        .encode(
            across(x.column, x, table.numbers(x.column), padding=24),
            alt.Y(y.column, type="quantitative", title=y.label, scale=alt.Scale(zero=False, padding=24, nice=False)),
            color(styles, legend=False),
        )
    )
    best = rows.transform_filter(alt.FieldOneOfPredicate(field="model", oneOf=list(front)))
    steps = best.mark_line(interpolate="step-after", color=INK, opacity=0.45, strokeWidth=1.3)
    layers: list[alt.Chart | alt.LayerChart] = [
        steps.encode(color=alt.value(INK), order=alt.Order(x.column, type="quantitative"))
    ]
    several = rows.transform_filter(has_numbers("lowest seed"))
    layers.append(several.mark_rule().encode(y=alt.Y("lowest seed", type="quantitative"), y2=alt.Y2("highest seed")))
    marks = rows.mark_point(filled=True, size=90, opacity=1)
    layers.append(marks.encode(shape=shape(styles), tooltip=tooltip(table, x, y)))
    for side, placed in sides(table, x, y, front).items():
        with_name_there = rows.transform_filter(alt.FieldOneOfPredicate(field="model", oneOf=placed))
        words = with_name_there.encode(text=alt.Text("model", type="nominal"), color=alt.value(INK))
        layers.append(words.mark_text(**SIDES[side], fontSize=SIZE, stroke=PAPER, strokeWidth=4))
        layers.append(words.mark_text(**SIDES[side], fontSize=SIZE))
    return alt.layer(*layers).properties(width="container", height=HEIGHT).to_dict(validate=False)


def sides(table: Table, x: Axis, y: Axis, first: Sequence[str]) -> dict[str, list[str]]:
    """The names that have room on each side of their marks, in a field of 420 pixels; those of `first` choose first."""
    pixels = _pixels(table, x, y)
    occupied: dict[str, Box] = {
        name: (x_pixel - 7, y_pixel - 7, x_pixel + 7, y_pixel + 7) for name, (x_pixel, y_pixel) in pixels.items()
    }
    names_by_side: dict[str, list[str]] = {}
    for name in sorted(pixels, key=lambda name: name not in first):
        others = [box for key, box in occupied.items() if key != name]
        boxes = _boxes(name, *pixels[name])
        free = (side for side, box in boxes.items() if not any(_overlap(box, other) for other in others))
        side = next((side for side in free if boxes[side][0] >= 0 and boxes[side][2] <= NARROWEST), None)
        if side is not None:
            names_by_side.setdefault(side, []).append(name)
            occupied[f"name of {name}"] = boxes[side]
    return names_by_side


def _pixels(table: Table, x: Axis, y: Axis) -> dict[str, tuple[float, float]]:
    """The position of each mark in a field of 420 pixels, without rows that lack a number."""
    columns = [table.head.index(name) for name in ("model", x.column, y.column)]
    cells = [tuple(row[column] for column in columns) for row in table.rows]
    positions = {str(name): (float(a), float(b)) for name, a, b in cells if a is not None and b is not None}
    xs = [math.log(a) if x.log else a for a, _ in positions.values()]
    ys = [b for _, b in positions.values()]
    x_span, y_span = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0
    return {
        name: (24 + (NARROWEST - 48) * (a - min(xs)) / x_span, 24 + (HEIGHT - 48) * (max(ys) - b) / y_span)
        for name, a, b in zip(positions, xs, ys, strict=True)
    }


def _boxes(name: str, x: float, y: float) -> dict[str, Box]:
    """The area that a name covers on each side of its mark at (x, y)."""
    width, height = 0.58 * SIZE * len(name), SIZE + 2
    return {
        "right": (x + 9, y - height / 2, x + 9 + width, y + height / 2),
        "left": (x - 9 - width, y - height / 2, x - 9, y + height / 2),
        "above": (x - width / 2, y - 9 - height, x + width / 2, y - 9),
        "below": (x - width / 2, y + 9, x + width / 2, y + 9 + height),
        "above left": (x + 9 - width, y - 9 - height, x + 9, y - 9),
        "below left": (x + 9 - width, y + 9, x + 9, y + 9 + height),
        "above right": (x - 9, y - 9 - height, x - 9 + width, y - 9),
        "below right": (x - 9, y + 9, x - 9 + width, y + 9 + height),
    }


def _overlap(first: Box, other: Box) -> bool:
    return first[0] < other[2] and other[0] < first[2] and first[1] < other[3] and other[1] < first[3]
