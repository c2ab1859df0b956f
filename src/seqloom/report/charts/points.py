"""Loss against a price: a mark per model with the interval of its seeds, and the Pareto front as a step line."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from seqloom.report.charts.chart import Axis, Spec, Table
from seqloom.report.charts.encodings import HEIGHT, across, colour, data, shape, tooltip
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
    shown = set(table.column("model"))
    styles = {name: style for name, style in styles.items() if name in shown}
    rows = data("rows").encode(
        across(x.column, x, table.numbers(x.column), padding=24),
        alt.Y(y.column, type="quantitative", title=y.label, scale=alt.Scale(zero=False, padding=24, nice=False)),
        colour(styles, legend=False),
    )
    best = rows.transform_filter(alt.FieldOneOfPredicate(field="model", oneOf=list(front)))
    steps = best.mark_line(interpolate="step-after", color=INK, opacity=0.45, strokeWidth=1.3)
    layers: list[alt.Chart | alt.LayerChart] = [
        steps.encode(color=alt.value(INK), order=alt.Order(x.column, type="quantitative"))
    ]
    # An empty cell of CSV is a text or null, by the reader, and would be a bar down to 0.
    several = rows.transform_filter("isValid(datum['lowest seed']) && datum['lowest seed'] !== ''")
    layers.append(several.mark_rule().encode(y=alt.Y("lowest seed", type="quantitative"), y2=alt.Y2("highest seed")))
    marks = rows.mark_point(filled=True, size=90, opacity=1)
    layers.append(marks.encode(shape=shape(styles), tooltip=tooltip(table, x, y)))
    for side, placed in sides(table, x, y, front).items():
        some = rows.transform_filter(alt.FieldOneOfPredicate(field="model", oneOf=placed))
        words = some.encode(text=alt.Text("model", type="nominal"), color=alt.value(INK))
        layers.append(words.mark_text(**SIDES[side], fontSize=SIZE, stroke=PAPER, strokeWidth=4))
        layers.append(words.mark_text(**SIDES[side], fontSize=SIZE))
    return alt.layer(*layers).properties(width="container", height=HEIGHT).to_dict(validate=False)


def sides(table: Table, x: Axis, y: Axis, first: Sequence[str]) -> dict[str, list[str]]:
    """The names that have room on each side of their marks, in a field of 420 pixels; those of `first` choose first."""
    pixels = _pixels(table, x, y)
    taken: dict[str, Box] = {name: (a - 7, b - 7, a + 7, b + 7) for name, (a, b) in pixels.items()}
    chosen: dict[str, list[str]] = {}
    for name in sorted(pixels, key=lambda name: name not in first):
        others = [box for key, box in taken.items() if key != name]
        boxes = _boxes(name, *pixels[name])
        free = (side for side, box in boxes.items() if not any(_meet(box, other) for other in others))
        side = next((side for side in free if boxes[side][0] >= 0 and boxes[side][2] <= NARROWEST), None)
        if side is not None:
            chosen.setdefault(side, []).append(name)
            taken[f"name of {name}"] = boxes[side]
    return chosen


def _pixels(table: Table, x: Axis, y: Axis) -> dict[str, tuple[float, float]]:
    """The position of each mark in a field of 420 pixels, without rows that lack a number."""
    at = [table.head.index(name) for name in ("model", x.column, y.column)]
    known = [tuple(row[column] for column in at) for row in table.rows]
    shown = {str(name): (float(a), float(b)) for name, a, b in known if a is not None and b is not None}
    across = [math.log(a) if x.log else a for a, _ in shown.values()]
    up = [b for _, b in shown.values()]
    wide, tall = max(across) - min(across) or 1.0, max(up) - min(up) or 1.0
    return {
        name: (24 + (NARROWEST - 48) * (a - min(across)) / wide, 24 + (HEIGHT - 48) * (max(up) - b) / tall)
        for name, a, b in zip(shown, across, up, strict=True)
    }


def _boxes(name: str, x: float, y: float) -> dict[str, Box]:
    """The room that a name takes on each side of its mark."""
    wide, tall = 0.58 * SIZE * len(name), SIZE + 2
    return {
        "right": (x + 9, y - tall / 2, x + 9 + wide, y + tall / 2),
        "left": (x - 9 - wide, y - tall / 2, x - 9, y + tall / 2),
        "above": (x - wide / 2, y - 9 - tall, x + wide / 2, y - 9),
        "below": (x - wide / 2, y + 9, x + wide / 2, y + 9 + tall),
        "above left": (x + 9 - wide, y - 9 - tall, x + 9, y - 9),
        "below left": (x + 9 - wide, y + 9, x + 9, y + 9 + tall),
        "above right": (x - 9, y - 9 - tall, x - 9 + wide, y - 9),
        "below right": (x - 9, y + 9, x - 9 + wide, y + 9 + tall),
    }


def _meet(first: Box, other: Box) -> bool:
    return first[0] < other[2] and other[0] < first[2] and first[1] < other[3] and other[1] < first[3]
