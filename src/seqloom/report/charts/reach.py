"""A map of reach, |∂y_t/∂x_s| over outputs t and inputs s, on a logarithmic scale: as a chart and as a thumbnail."""

import math
from collections.abc import Sequence

from seqloom.report.charts.chart import Chart, Choice, Spec, Table, round_number
from seqloom.report.charts.picture import DEPTHS, STEPS, png

DECADES = 3
"""powers of ten between the palest color and the deepest"""
UNREAD = 1e-9
"""the share of the largest slope up to which a slope is rounding error, such as that of a Fourier transform"""
Slopes = Sequence[Sequence[float]]
"""at [t][s]"""


def chart(slopes: Slopes, heading: str, description: str) -> Chart:
    """The map with its axes and the meaning of its colors. ValueError where all slopes are 0."""
    largest = _largest(slopes)
    rows = [
        [s, t, round_number(slope / largest)]
        for t, row in enumerate(slopes)
        for s, slope in enumerate(row)
        if slope > UNREAD * largest
    ]
    table = Table(["input s", "output t", "of the largest"], rows)
    choice = Choice(heading, lambda: grid("input s", "output t", "of the largest", len(slopes), decades=DECADES))
    return Chart("map", heading, description, {"rows": table}, [choice])


def thumbnail(slopes: Slopes) -> bytes:
    """The map alone, one pixel per slope: a PNG file. ValueError where all slopes are 0."""
    return png(steps(slopes))


def steps(slopes: Slopes) -> list[list[int | None]]:
    """The color of each cell, from 0 to `STEPS`; None where an output does not read an input."""
    largest = _largest(slopes)
    return [[_step(slope / largest) if slope > UNREAD * largest else None for slope in row] for row in slopes]


def _step(share: float) -> int:
    return round(STEPS * min(max(1 + math.log10(share) / DECADES, 0.0), 1.0))


def _largest(slopes: Slopes) -> float:
    largest = max(max(row) for row in slopes)
    if not largest > 0:
        raise ValueError("the map has no slope at all: nothing can be drawn")
    return largest


def grid(x: str, y: str, value: str, count: int, *, decades: int) -> Spec:
    """Cells of data called `rows` over the whole numbers `x` and `y` below `count`, with the smallest y on top.

    The color is the logarithm of `value`, from 1 down to 10^-decades; less is palest, and cells without a row blank.
    """
    import altair as alt

    from seqloom.report.charts.encodings import data

    scale = alt.Scale(type="log", domain=[10.0**-decades, 1], range=list(DEPTHS), clamp=True)
    names = [str(number) for number in range(count)]  # as text, as CSV has them; numbers would match none
    cells = alt.Scale(domain=names)
    ticks = alt.Axis(values=names[:: max(1, count // 4)], labelAngle=0, domain=False)
    legend = alt.Legend(
        orient="right", format=".3~f", values=[10.0**-number for number in range(decades + 1)], gradientLength=200
    )
    marks = data("rows").mark_rect(stroke=None).encode(
        alt.X(x, type="ordinal", axis=ticks, scale=cells),
        alt.Y(y, type="ordinal", axis=ticks, scale=cells),
        alt.Color(value, type="quantitative", scale=scale, legend=legend),
    )  # fmt: skip
    return marks.properties(height=300).to_dict(validate=False)
