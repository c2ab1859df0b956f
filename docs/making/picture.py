"""A reach map as a picture: outputs from the top, inputs from the left, the color a logarithm.

The largest slope is the deepest color, a thousandth of it or less the palest; what is not read at all stays blank.
"""

from torch import Tensor

from seqloom.report.charts.chart import Chart, Choice, Table, rounded
from seqloom.report.charts.draw import svg
from seqloom.report.charts.maps import grid
from seqloom.report.charts.picture import STEPS, png

DECADES = 3
UNREAD = 1e-9
"""of the largest: less is the rounding of a Fourier transform"""


def picture(slopes: Tensor, title: str, description: str) -> str:
    """The map (T, T) with its axes and the meaning of its colors: an SVG file. ValueError where all slopes are 0."""
    largest = _largest(slopes)
    rows = [
        [s, t, rounded(slope / largest)]
        for t, row in enumerate(slopes.tolist())
        for s, slope in enumerate(row)
        if slope > UNREAD * largest
    ]
    table = Table(["input s", "output t", "of the largest"], rows)
    choice = Choice(title, lambda: grid("input s", "output t", "of the largest", len(slopes), decades=DECADES))
    return svg(Chart("map", title, description, {"rows": table}, [choice]), width=300)


def thumbnail(slopes: Tensor) -> bytes:
    """The map alone, one pixel per slope: a PNG file."""
    return png(steps(slopes))


def steps(slopes: Tensor) -> list[list[int | None]]:
    """The color of each cell, from 0 to `STEPS`; None where an output does not read an input."""
    largest = _largest(slopes)
    shares = (1 + (slopes / largest).log10() / DECADES).clamp(0, 1).tolist()
    read = (slopes > UNREAD * largest).tolist()
    return [
        [round(share * STEPS) if is_read else None for share, is_read in zip(line, reads, strict=True)]
        for line, reads in zip(shares, read, strict=True)
    ]


def _largest(slopes: Tensor) -> float:
    largest = float(slopes.max())
    if not largest > 0:
        raise ValueError("the map has no slope at all: nothing can be drawn")
    return largest
