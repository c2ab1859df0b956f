"""The encodings that all charts share: named data, axes, and the color, dash and mark of a model."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from seqloom.report.charts.chart import SEEDS, Axis, Table
from seqloom.report.charts.style import LineStyle

FEW = 8
"""models that are named next to their lines; more have a legend"""
HEIGHT = 360
"""pixels from the lower to the upper end of a chart"""


def data(name: str) -> alt.Chart:
    """A chart of the data of that name: CSV text, which takes a third of the time and room of a list of objects."""
    return alt.Chart(alt.NamedData(name=name, format=alt.CsvDataFormat(type="csv")))


def has_numbers(*columns: str) -> str:
    """The condition that a row has a number in each column.

    An empty cell of CSV is a text or null, by the reader, and would be drawn at 0.
    """
    values = [f"datum[{json.dumps(column)}]" for column in columns]
    return " && ".join(f"isValid({value}) && {value} !== ''" for value in values)


def across(column: str, x: Axis, numbers: Sequence[float], padding: int = 0) -> alt.X:
    """A column along the horizontal axis, which goes from the least to the largest of the numbers."""
    scale = alt.Scale(type="log", padding=padding, nice=False)
    if not x.log:
        scale = alt.Scale(zero=False, padding=padding, nice=False)
    return alt.X(column, type="quantitative", title=x.label, scale=scale, axis=ticks(x, numbers))


def ticks(x: Axis, numbers: Sequence[float]) -> alt.Axis:
    """Few numbers along an axis, short where they are large: 20k, 3M; powers of ten where there are several."""
    low, high = min(numbers), max(numbers)
    form: dict[str, Any] = {"format": "~s"} if high >= 10_000 else {}
    if x.marked:
        return alt.Axis(values=list(x.marked), **form)
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1) if x.log else range(0)
    if len(powers) > 1:
        return alt.Axis(values=[10.0**power for power in powers], **form)
    return alt.Axis(tickCount=7, **form)


def up(column: str, y: Axis, y_range: tuple[float, float]) -> alt.Y:
    """A column on the vertical axis, whose range is `y_range`."""
    scale = alt.Scale(type="log" if y.log else "linear", domain=list(y_range), nice=False)
    return alt.Y(column, type="quantitative", title=y.label, scale=scale)


def key(styles: Mapping[str, LineStyle]) -> alt.Legend | None:
    """The legend of more than a few models; a click on a name shows it alone."""
    return None if len(styles) <= FEW else alt.Legend(symbolLimit=0, symbolType="stroke", symbolOpacity=1)


def color(styles: Mapping[str, LineStyle], *, legend: bool = True) -> alt.Color:
    """The color of each model; more than a few have a legend."""
    scale = alt.Scale(domain=list(styles), range=[style.color for style in styles.values()])
    return alt.Color("model", type="nominal", scale=scale, title=None, legend=key(styles) if legend else None)


def dash(styles: Mapping[str, LineStyle]) -> alt.StrokeDash:
    """The dash of each model's line."""
    scale = alt.Scale(domain=list(styles), range=[list(style.dash) for style in styles.values()])
    return alt.StrokeDash("model", type="nominal", scale=scale, title=None, legend=key(styles))


def shape(styles: Mapping[str, LineStyle]) -> alt.Shape:
    """The shape of each model's mark."""
    scale = alt.Scale(domain=list(styles), range=[style.shape for style in styles.values()])
    return alt.Shape("model", type="nominal", scale=scale, legend=None)


def tooltip(table: Table, x: Axis, y: Axis) -> list[alt.Tooltip]:
    """The tooltip of a mark: the model, both numbers, and its seeds."""
    seeds = [name for name in SEEDS if name in table.head]
    numbers = [alt.Tooltip(name, type="quantitative", format=".5~g") for name in (x.column, y.column, *seeds)]
    return [alt.Tooltip("model", type="nominal"), *numbers]
