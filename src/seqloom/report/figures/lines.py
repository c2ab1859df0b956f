"""Curves over a common axis, with bands around them, reference levels, and names at their right ends."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import final

from seqloom.report.figures import legend
from seqloom.report.figures.axes import Axis, Scale, spread
from seqloom.report.figures.curves import band, curve, level, runs
from seqloom.report.figures.frame import HEIGHT, frame
from seqloom.report.figures.palette import SLOTS
from seqloom.report.figures.strokes import marker
from seqloom.report.figures.svg import element
from seqloom.report.figures.ticks import enclosing

_END = 18.0  # pixels on the right of a field that has its legend below


@final
@dataclass(frozen=True)
class Series:
    """One curve: y over x (equally long; None and what is not finite are gaps), with a band from `low` to `high`.

    `slot` picks colour, mark and dash out of twelve. `dashed` is for a curve that belongs to another one; `marks` draws
    each point.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    slot: int
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    dashed: bool = False
    marks: bool = False


@final
@dataclass(frozen=True)
class Level:
    """A horizontal reference line."""

    name: str
    y: float


def lines(
    series: Sequence[Series], *, title: str, description: str, x: Axis, y: Axis, levels: Sequence[Level] = ()
) -> str:
    """The figure as one <svg> element.

    Up to eight short names stand at the right ends of their curves; otherwise there is a legend below.
    Errors: ValueError where there is no series, one has no finite point or columns of different lengths, or a
    logarithmic axis would have to show a value that is not positive.
    """
    if not series:
        raise ValueError(f"figure “{title}”: there is no series to draw; give at least one")
    levels = [one for one in levels if isfinite(one.y)]
    drawn = [_checked(one, title) for one in series]
    bands = [runs(one.x, one.low, one.high) if one.low and one.high else [] for one in series]
    places = [place for found in drawn + bands for run in found for place, *_ in run]
    heights = [value for found in drawn + bands for run in found for _, *values in run for value in values]
    across = _rounded(spread(places, x, figure=title, enclose=False))
    up = spread([*heights, *(one.y for one in levels)], y, figure=title, enclose=True, pad=0.03 if y.log else 0.0)

    entries = [legend.Entry(one.name, one.slot, one.dashed) for one in series]
    entries += [legend.Entry(one.name, None) for one in levels]
    beside = legend.direct(entries)
    field = frame(across, up, x, y, legend.margin(entries) if beside else _END)
    parts = ["<defs>", *(marker(slot) for slot in sorted({one.slot % SLOTS for one in series})), "</defs>", field.body]
    parts += [band(one.slot, found, field.x, field.y) for one, found in zip(series, bands, strict=True)]
    parts += [level(one.name, one.y, field.x, field.y) for one in levels]
    parts += [
        curve(one.name, one.slot, found, field.x, field.y, dashed=one.dashed, marks=one.marks)
        for one, found in zip(series, drawn, strict=True)
    ]
    height = HEIGHT
    if beside:
        lasts = [found[-1][-1] for found in drawn]
        ends = [(field.x(place), field.y(value)) for place, value in lasts]
        ends += [(field.right, field.y(one.y)) for one in levels]
        parts.append(legend.at_ends(entries, ends, field.right))
    else:
        names, height = legend.below(entries)
        parts.append(names)
    return element("".join(parts), title=title, description=description, height=height)


def _checked(one: Series, figure: str) -> list[list[tuple[float, ...]]]:
    """The runs of a series; ValueError where it has none, or columns that do not fit together."""
    for word, column in (("y", one.y), ("low", one.low), ("high", one.high)):
        if column is not None and len(column) != len(one.x):
            raise ValueError(
                f"figure “{figure}”: the series “{one.name}” has {len(one.x)} values of x and {len(column)} of {word}; "
                "give equally many"
            )
    if (one.low is None) != (one.high is None):
        raise ValueError(f"figure “{figure}”: the band of “{one.name}” needs both low and high")
    found = runs(one.x, one.y)
    if not found:
        raise ValueError(f"figure “{figure}”: the series “{one.name}” has no finite point; leave it out")
    return found


def _rounded(scale: Scale) -> Scale:
    """An even scale whose ends move to the next tick where that is near: batches 1 … 2,990 lie over 0 … 3,000."""
    if scale.log:
        return scale
    low, high = enclosing(scale.low, scale.high, 8)
    near = 0.06 * (scale.high - scale.low)
    low = low if scale.low - low <= near else scale.low
    high = high if high - scale.high <= near else scale.high
    return replace(scale, low=low, high=high)
