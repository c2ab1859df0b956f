"""A heat map: an array as coloured cells, with a bar that says which colour is which number."""

from collections.abc import Sequence
from math import isfinite

from seqloom.report.figures import ramps
from seqloom.report.figures.axes import Scale
from seqloom.report.figures.cells import averaged, strokes
from seqloom.report.figures.frame import MUTED
from seqloom.report.figures.labels import shortened, width
from seqloom.report.figures.places import Sides, indices, tokens
from seqloom.report.figures.svg import SIZE, WIDTH, coordinate, element, text

_TOP = 34.0
_BAR = 14.0


def heat(
    values: Sequence[Sequence[float]],
    *,
    title: str,
    description: str,
    x: str,
    y: str,
    signed: bool,
    labels: Sequence[str] | None = None,
) -> str:
    """The figure as one <svg> element: rows of `values` from the top, columns from the left.

    Colours run from 0 to the largest value, or with `signed` from minus to plus the largest size. An array of more than
    96 rows or columns is averaged, and the description says over how many. `labels` are the words of the places of both
    axes of a square array; they are shown where they fit.
    Errors: ValueError where the array is empty, ragged or without a finite value, where a value is negative though not
    `signed`, or where `labels` do not fit the array.
    """
    _check(values, title, signed, labels)
    cells, tall, wide = averaged(values)
    largest = max(abs(value) for row in cells for value in row if value is not None) or 1.0
    place = ramps.diverging if signed else ramps.sequential
    steps = [[None if value is None else place(value / largest) for value in row] for row in cells]
    scale = Scale(-largest if signed else 0.0, largest, 1, 0)
    numbers = scale.ticks(5)
    margin = 18 + _BAR + 8 + max(width(label) for _, label in numbers)
    square = labels is not None or (len(values) == len(values[0]) and len(values) > 1)
    sides = (tokens(labels, _TOP, margin) if labels and tall == wide == 1 else None) or indices(
        len(cells), len(cells[0]), tall, wide, _TOP, margin, square=square
    )
    parts = [
        _field(steps, signed, sides),
        sides.body,
        _bar(signed, scale, numbers, sides),
        text(2, 17, shortened(y, WIDTH - 4)),
        text((sides.left + sides.right) / 2, sides.below + SIZE + 8, shortened(x, WIDTH - 4), 'text-anchor="middle"'),
    ]
    if max(tall, wide) > 1:
        description = f"{description} Each cell is the mean of {tall} × {wide} values (rows × columns)."
    return element("".join(parts), title=title, description=description, height=sides.below + SIZE + 18)


def _check(values: Sequence[Sequence[float]], title: str, signed: bool, labels: Sequence[str] | None) -> None:
    if not len(values) or not len(values[0]):
        raise ValueError(f"figure “{title}”: the array has no values; give at least one row and column")
    if any(len(row) != len(values[0]) for row in values):
        raise ValueError(f"figure “{title}”: the rows of the array differ in length; give equally long ones")
    finite = [value for row in values for value in row if isfinite(value)]
    if not finite:
        raise ValueError(f"figure “{title}”: the array has no finite value; nothing can be drawn")
    if not signed and min(finite) < 0:
        raise ValueError(f"figure “{title}”: the array holds {min(finite):g}; values below 0 need signed=True")
    if labels is not None and not len(labels) == len(values) == len(values[0]):
        raise ValueError(
            f"figure “{title}”: {len(labels)} labels for an array of {len(values)} × {len(values[0])}; "
            "labels need a square array of as many rows and columns"
        )


def _field(steps: Sequence[Sequence[int | None]], signed: bool, sides: Sides) -> str:
    """The cells, drawn in units of a cell and stretched over the field."""
    across, down = (sides.right - sides.left) / len(steps[0]), (sides.bottom - sides.top) / len(steps)
    paths = "".join(f'<path stroke="{ramps.fill(step, signed)}" d="{d}"/>' for step, d in strokes(steps).items())
    # The middle of the first row's stroke lies half a cell below the top.
    moved = f"translate({coordinate(sides.left)} {sides.top + down / 2:.2f}) scale({across:.6g} {down:.6g})"
    return (
        f'<g class="cells" transform="{moved}" fill="none" stroke-width="1" shape-rendering="crispEdges">{paths}</g>'
        f'<path d="M{coordinate(sides.left)} {coordinate(sides.top)}H{coordinate(sides.right)}'
        f'V{coordinate(sides.bottom)}H{coordinate(sides.left)}z" fill="none" stroke="var(--ink)" opacity=".4"/>'
    )


def _bar(signed: bool, scale: Scale, numbers: Sequence[tuple[float, str]], sides: Sides) -> str:
    """The colours from the largest number on top to the smallest, with their numbers."""
    low = -(ramps.STEPS // 2) if signed else 0
    count = ramps.STEPS + 1
    tall = (sides.bottom - sides.top) / count
    left = sides.right + 16
    stripes = "".join(
        f'<path stroke="{ramps.fill(low + step, signed)}" d="M0 {count - 1 - step}h1"/>' for step in range(count)
    )
    scale = scale.over(sides.bottom - tall / 2, sides.top + tall / 2)
    moved = f"translate({coordinate(left)} {sides.top + tall / 2:.2f}) scale({coordinate(_BAR)} {tall:.6g})"
    return (
        f'<g class="bar" transform="{moved}" fill="none" stroke-width="1" shape-rendering="crispEdges">{stripes}</g>'
        f"<g {MUTED}>"
        + "".join(text(left + _BAR + 6, scale(value) + SIZE * 0.36, label) for value, label in numbers)
        + "</g>"
    )
