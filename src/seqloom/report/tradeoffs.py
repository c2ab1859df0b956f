"""Trade-offs: held-out loss against time, memory, parameters and operations, with the Pareto front of each."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from seqloom.report.charts.chart import Axis, Chart, Choice, Spec, Table, all_rounded
from seqloom.report.charts.style import LineStyle
from seqloom.report.comparison import LOSS, Column, Comparison
from seqloom.report.measured import list_measured
from seqloom.report.needs import farthest

PRICES = (
    "ms a step",
    "peak MB a step",
    "ms a generated token",
    "ms a token at {}",
    "state bytes",
    "state bytes at {}",
    "parameters",
    "operations a token",
)
WIDE = 8.0
"""from this ratio of the highest to the lowest price on, an axis is logarithmic"""
Point = tuple[float, float, float | None, float | None]
"""a price, a loss, and the losses of its lowest and highest seed"""


def tradeoffs(rows: Comparison) -> list[Chart]:
    """A chart of the loss over each price that is known."""
    length = f"{farthest(list_measured(rows)):,}"
    columns = [column for name in PRICES if (column := rows.column(name.format(length)))]
    charts = []
    for column in columns:
        points: dict[str, Point] = {}
        for contender in rows.contenders:
            price, loss = contender.value(column.name), contender.value(LOSS)
            if price is not None and loss is not None:
                points[contender.name] = (price, loss, *(contender.span(LOSS) or (None, None)))
        if points:
            charts.append(chart(column.name, label(column), points, rows.styles, column.meaning))
    return charts


def chart(
    column: str, words: str, points: Mapping[str, Point], styles: Mapping[str, LineStyle], meaning: str, name: str = ""
) -> Chart:
    """Held-out loss against one price, that of `column`; `words` label its axis."""
    front = pareto({model: (price, loss) for model, (price, loss, *_) in points.items()})
    head = ["model", column, "held-out loss", "lowest seed", "highest seed", "on the Pareto front"]
    table = Table(
        head,
        [[model, *all_rounded(point), "yes" if model in front else "no"] for model, point in points.items()],
    )
    prices = [price for price, *_ in points.values()]
    log = min(prices) > 0 and max(prices) / min(prices) >= WIDE
    draw = partial(_draw, table, Axis(column, words, log), styles, front)
    return Chart(name or f"price of {column}", words, meaning, {"rows": table}, [Choice(column, draw)])


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The names that no other point beats, by increasing first coordinate; less is better in both.

    A point is beaten by one that is no greater in both and smaller in one of them; equal points stay together. Points
    with a coordinate that is not finite are left out.
    """
    lowest, last = math.inf, (math.nan, math.nan)
    names = []
    for name, point in sorted(points.items(), key=lambda pair: pair[1]):
        if all(map(math.isfinite, point)) and (point[1] < lowest or point == last):
            names.append(name)
            lowest, last = point[1], point
    return names


def label(column: Column) -> str:
    """The label of a column's axis: its name, with the unit where the name does not contain it."""
    return column.title if names_its_unit(column) else f"{column.title} ({column.unit})"


def names_its_unit(column: Column) -> bool:
    """Whether a column has no unit, or its name contains it, as "peak MB a step" does."""
    return all(word in column.title.split() for word in column.unit.split())


def _draw(table: Table, x: Axis, styles: Mapping[str, LineStyle], front: Sequence[str]) -> Spec:
    from seqloom.report.charts.points import points

    return points(table, x, Axis("held-out loss", "held-out loss (nats per token)"), styles, front)
