"""What all charts share: named data, axes, and the colour, dash and mark of each model."""

from collections.abc import Mapping

import altair as alt

from seqloom.report.charts.chart import Axis, Table
from seqloom.report.charts.style import Look

FEW = 8
"""models that are named next to their lines; more have a legend"""
HEIGHT = 360
"""pixels from the lower to the upper end of a chart"""


def data(name: str) -> alt.Chart:
    """A chart of the data of that name: CSV text, which takes a third of the time and room of a list of objects."""
    return alt.Chart(alt.NamedData(name=name, format=alt.CsvDataFormat(type="csv")))


def ticks() -> alt.Axis:
    """Few numbers along the horizontal axis, short where they are large: 20k, 3M."""
    return alt.Axis(tickCount=7, format="~s", labelFlush=False)


def across(column: str, x: Axis) -> alt.X:
    """A column along the horizontal axis."""
    scale = alt.Scale(type="log", nice=False) if x.log else alt.Scale(nice=False)
    return alt.X(column, type="quantitative", title=x.label, scale=scale, axis=ticks())


def up(column: str, y: Axis, room: tuple[float, float]) -> alt.Y:
    """A column along the vertical axis, which shows what is in `room`."""
    scale = alt.Scale(type="log" if y.log else "linear", domain=list(room), nice=False)
    return alt.Y(column, type="quantitative", title=y.label, scale=scale)


def key(looks: Mapping[str, Look]) -> alt.Legend | None:
    """The legend of more than a few models; a click on a name shows it alone."""
    return None if len(looks) <= FEW else alt.Legend(symbolLimit=0)


def colour(looks: Mapping[str, Look], *, legend: bool = True) -> alt.Color:
    """The colour of each model; more than a few have a legend."""
    scale = alt.Scale(domain=list(looks), range=[look.colour for look in looks.values()])
    return alt.Color("model", type="nominal", scale=scale, title=None, legend=key(looks) if legend else None)


def dash(looks: Mapping[str, Look]) -> alt.StrokeDash:
    """The dash of each model's line."""
    scale = alt.Scale(domain=list(looks), range=[list(look.dash) for look in looks.values()])
    return alt.StrokeDash("model", type="nominal", scale=scale, title=None, legend=key(looks))


def shape(looks: Mapping[str, Look]) -> alt.Shape:
    """The shape of each model's mark."""
    scale = alt.Scale(domain=list(looks), range=[look.shape for look in looks.values()])
    return alt.Shape("model", type="nominal", scale=scale, legend=None)


def tooltip(table: Table, x: Axis, y: Axis) -> list[alt.Tooltip]:
    """What is read where a mark is pointed at: the model, both numbers, and its seeds."""
    seeds = [name for name in ("lowest seed", "highest seed") if name in table.head]
    numbers = [alt.Tooltip(name, type="quantitative", format=".5~g") for name in (x.column, y.column, *seeds)]
    return [alt.Tooltip("model", type="nominal"), *numbers]
