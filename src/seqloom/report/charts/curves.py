"""Curves over a common axis: a line per model with a band over its seeds, faint raw values, and reference levels."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import altair as alt

from seqloom.report.charts.chart import SEEDS, Axis, Spec, Table
from seqloom.report.charts.encodings import FEW, HEIGHT, across, color, dash, data, has_numbers, tooltip, up
from seqloom.report.charts.style import MUTED, PAPER, SIZE, LineStyle

Range: TypeAlias = tuple[float, float]
"""the lowest and the highest y of a chart"""
FLAT = 1.3
"""times the height of the curves: levels for which the chart would have to be higher are only named at its edge"""
LINE = 17
"""pixels from one name to the next"""


def curves(
    table: Table,
    x: Axis,
    y: Axis,
    styles: Mapping[str, LineStyle],
    *,
    levels: Sequence[tuple[str, float]] = (),
    raw: Mapping[str, float] | None = None,
    marks: bool = False,
    borders: Sequence[tuple[str, float]] = (),
    only: tuple[str, int] | None = None,
    cut: bool = False,
    height: int = HEIGHT,
) -> Spec:
    """Lines of `y` over `x`, one for each value of the column `model`, of data called `rows`.

    With `only`, a column and a number, the data have other rows too, and those with that number are drawn: `table` has
    them alone.

    Where the rows have the columns "lowest seed" and "highest seed", a band goes from one to the other. With `raw`,
    data called `raw` (model, batches, loss) are drawn faintly; it has the amount of `x` per batch, of the models that
    are drawn.
    With `cut` the first third may leave the chart at its top, so that the rest fills the height. `levels` are
    horizontal lines, `borders` vertical ones; `marks` shows each point. Of more than eight models, bands
    and raw values are shown only for the one under the pointer.
    """
    models = set(table.column("model"))
    styles = {name: style for name, style in styles.items() if name in models}
    y_range = _range(table, x, y, levels, cut=cut)
    x_values = table.numbers(x.column)
    rows = (
        data("rows")
        .transform_filter(has_numbers(x.column, y.column))
        .encode(across(x.column, x, x_values), up(y.column, y, y_range), color(styles))
    )
    if only is not None:  # in each layer: a filter of the whole chart does not reach layers with data of their own
        rows = rows.transform_filter(f"datum[{json.dumps(only[0])}] == {only[1]}")  # CSV has the number as text
    hover = alt.selection_point("hover", fields=["model"], on="pointerover", nearest=True, clear="pointerout")
    pick = alt.selection_point("pick", fields=["model"], bind="legend")
    picked = alt.when(hover & pick)
    layers: list[alt.Chart | alt.LayerChart] = []
    if raw is not None:
        layers.append(_raw(raw, x, y, y_range, x_values, styles))
    if SEEDS[0] in table.head:
        layers.append(_band(rows, y, y_range, len(styles)))
    layers.append(rows.mark_line(clip=True, point=False).encode(
        strokeDash=dash(styles), opacity=picked.then(alt.value(1)).otherwise(alt.value(0.15))))  # fmt: skip
    points = rows.mark_point(filled=True, size=50, clip=True).encode(
        opacity=alt.value(1 if marks else 0), tooltip=tooltip(table, x, y)
    )
    layers.append(points.add_params(hover, pick))
    outside = {True: 0, False: 0}  # names of levels below and above the axis, a line each
    for name, at in levels:
        below = at < y_range[0]
        layers.append(_level(name, at, y, y_range, height, outside[below] * LINE))
        outside[below] += not y_range[0] <= at <= y_range[1]
    layers += [_border(name, at, x, x_values) for name, at in borders]
    if len(styles) <= FEW:
        layers.append(_names(table, x, y, y_range, height, styles))
    return alt.layer(*layers).properties(width="container", height=height).to_dict(validate=False)


def spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The values moved apart to at least `gap` from each other, within [low, high], by least squares.

    Neighbors that are too near form a block, which moves to the mean of its members' target positions. Where the room
    is too small for all, `gap` shrinks.
    """
    gap = min(gap, (high - low) / max(1, len(values) - 1))
    order = sorted(range(len(values)), key=lambda index: values[index])
    # Without the gaps the task is a monotone regression, which pooling of neighbors solves.
    blocks: list[tuple[float, int]] = []
    for rank, index in enumerate(order):
        mean, count = values[index] - rank * gap, 1
        while blocks and blocks[-1][0] >= mean:
            other_mean, other_count = blocks.pop()
            mean = (other_mean * other_count + mean * count) / (other_count + count)
            count += other_count
        blocks.append((mean, count))
    ceiling = high - (len(values) - 1) * gap
    pooled = [min(max(mean, low), ceiling) for mean, count in blocks for _ in range(count)]
    moved = dict(zip(order, (value + rank * gap for rank, value in enumerate(pooled)), strict=True))
    return [moved[index] for index in range(len(values))]


def _range(table: Table, x: Axis, y: Axis, levels: Sequence[tuple[str, float]], *, cut: bool) -> Range:
    """The range of y with a margin: all values, and the levels unless they would flatten the curves.

    With `cut`, what is above the curves in the last two thirds of x is left out, so that these fill the height.
    """
    columns = [name for name in (y.column, *SEEDS) if name in table.head]
    low = min(value for name in columns for value in table.numbers(name))
    high = max(value for name in columns for value in table.numbers(name))
    if cut:
        start = max(table.numbers(x.column)) / 3
        points = zip(table.column(x.column), table.column(y.column), strict=True)
        later = [b for a, b in points if isinstance(a, int | float) and isinstance(b, int | float) and a >= start]
        high = max(later, default=high)
    for level in sorted((level for _, level in levels), key=lambda level: abs(level - low)):
        height = max(high, level) - min(low, level)
        if height <= FLAT * (high - low):
            low, high = min(low, level), max(high, level)
    if y.log:
        return low / 1.2, high * 1.2
    margin = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
    return low - margin, high + margin


def _raw(
    amounts: Mapping[str, float],
    x: Axis,
    y: Axis,
    y_range: Range,
    x_values: Sequence[float],
    styles: Mapping[str, LineStyle],
) -> alt.Chart:
    """The raw values, drawn faintly; with many models, only those of the one under the pointer."""
    amount = f"datum.batches * {json.dumps(dict(amounts))}[datum.model]"
    faint = alt.value(0.15 if len(styles) <= FEW else 0)
    return (
        data("raw")
        .transform_filter(alt.FieldOneOfPredicate(field="model", oneOf=list(amounts)))
        .transform_calculate(x=amount)
        .mark_line(strokeWidth=0.8, clip=True)
        .encode(
            across("x", x, x_values),
            up("loss", y, y_range),
            color(styles),
            opacity=alt.when("hover", empty=False).then(alt.value(0.5)).otherwise(faint),
        )
    )


def _band(rows: alt.Chart, y: Axis, y_range: Range, models: int) -> alt.Chart:
    """From the lowest to the highest seed; with many models, only for the one under the pointer."""
    pale = alt.value(0.16 if models <= FEW else 0)
    opacity = alt.when("hover", empty=False).then(alt.value(0.3)).otherwise(pale)
    ends = rows.encode(up("lowest seed", y, y_range), y2=alt.Y2("highest seed"))
    return ends.mark_area(clip=True).encode(opacity=opacity)


def _level(name: str, value: float, y: Axis, y_range: Range, height: int, room: int) -> alt.LayerChart:
    """A horizontal line with its name above its left end; for a line outside of the axis, its name and an arrow.

    `room` are the pixels at that end of the axis that other names have taken.
    """
    base = alt.Chart(alt.InlineData(values=[{"y": value}]))
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-3, color=MUTED, fontSize=SIZE - 1)
    outline = base.mark_text(align="left", baseline="bottom", dx=4, dy=-3, fontSize=SIZE - 1, color=PAPER, stroke=PAPER,
                            strokeWidth=5)  # fmt: skip
    if y_range[0] <= value <= y_range[1]:
        line = base.mark_rule(color=MUTED, strokeDash=[2, 3]).encode(up("y", y, y_range))
        names = [layer.encode(up("y", y, y_range), x=alt.value(0), text=alt.value(name)) for layer in (outline, text)]
        return alt.LayerChart(layer=[line, *names])
    below = value < y_range[0]
    edge = alt.value(height - room if below else LINE + room)
    return alt.LayerChart(
        layer=[text.encode(x=alt.value(0), y=edge, text=alt.value(f"{'↓' if below else '↑'} {name} {value:.3g}"))]
    )


def _border(name: str, value: float, x: Axis, x_values: Sequence[float]) -> alt.LayerChart:
    """A vertical line with its name to the right of its upper end."""
    base = alt.Chart(alt.InlineData(values=[{"x": value}])).encode(across("x", x, x_values))
    line = base.mark_rule(color=MUTED, strokeDash=[2, 3])
    text = base.mark_text(align="left", baseline="top", dx=4, color=MUTED, fontSize=SIZE - 1)
    return alt.LayerChart(layer=[line, text.encode(y=alt.value(0), text=alt.value(name))])


def _names(
    table: Table, x: Axis, y: Axis, y_range: Range, height: int, styles: Mapping[str, LineStyle]
) -> alt.LayerChart:
    """The name of each model to the right of the chart, after a piece of its line, at the height where its line ends.

    Names that would overlap are moved apart.
    """
    points = zip(table.column("model"), table.column(x.column), table.column(y.column), strict=True)
    ends = [(str(name), a, b) for name, a, b in points if isinstance(a, int | float) and isinstance(b, int | float)]
    last_y = {name: b for name, _, b in sorted(ends, key=lambda point: point[1])}
    scale, unscale = (math.log, math.exp) if y.log else (float, float)
    low, high = (scale(end) for end in y_range)
    heights = spread([scale(value) for value in last_y.values()], (high - low) * LINE / height, low, high)
    places = [{"model": name, "y": unscale(value)} for name, value in zip(last_y, heights, strict=True)]
    right = alt.Chart(alt.InlineData(values=places)).encode(up("y", y, y_range), color(styles), x=alt.value("width"))
    pieces = right.mark_point(shape="stroke", size=20**2, xOffset=16, strokeWidth=2).encode(strokeDash=dash(styles))
    words = right.mark_text(align="left", dx=32, limit=190).encode(text=alt.Text("model", type="nominal"))
    return alt.LayerChart(layer=[pieces, words], name="names")
