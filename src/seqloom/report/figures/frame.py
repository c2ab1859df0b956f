"""The field of a figure: grid lines, ticks with numbers, and the labels of both axes."""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

from seqloom.report.figures.axes import Axis, Scale
from seqloom.report.figures.labels import shortened, width
from seqloom.report.figures.svg import SIZE, WIDTH, coordinate, text

TOP, BOTTOM = 36.0, 346.0  # of the field; above it stands the label of y, below it the ticks and the label of x
HEIGHT = 400.0
MUTED = 'fill-opacity=".78"'


@final
@dataclass(frozen=True)
class Frame:
    """The scales of a figure in pixels, and the SVG of its field."""

    x: Scale
    y: Scale
    body: str

    @property
    def right(self) -> float:
        """The right edge of the field."""
        return self.x.end


def frame(x: Scale, y: Scale, x_axis: Axis, y_axis: Axis, margin: float) -> Frame:
    """The field that leaves `margin` pixels free on its right; scales are laid over its pixels."""
    y = y.over(BOTTOM, TOP)
    rows = y.ticks(6)
    left = max(width(label) for _, label in rows) + 10
    right = WIDTH - margin
    columns = _fitting(x.over(left, right))
    # The numbers of the outer ticks are centred under them and must not leave the figure.
    rough = x.over(left, right)
    over = max((rough(value) + width(label) / 2 - WIDTH for value, label in columns), default=0.0)
    under = max((width(label) / 2 - rough(value) for value, label in columns), default=0.0)
    left, right = left + max(0.0, under), right - max(0.0, over)
    x = x.over(left, right)
    grid = [f"M{coordinate(left)} {coordinate(y(value))}H{coordinate(right)}" for value, _ in rows]
    grid += [f"M{coordinate(x(value))} {coordinate(TOP)}V{coordinate(BOTTOM)}" for value, _ in columns]
    below = shortened(x_axis.label, WIDTH - 4)
    parts = [
        f'<path d="{"".join(grid)}" fill="none" stroke="var(--faint)"/>',
        f'<path d="M{coordinate(left)} {coordinate(BOTTOM)}H{coordinate(right)}" stroke="var(--ink)" opacity=".55"/>',
        f'<g text-anchor="end" {MUTED}>',
        *(text(left - 7, y(value) + SIZE * 0.36, label) for value, label in rows),
        f'</g><g text-anchor="middle" {MUTED}>',
        *(text(x(value), BOTTOM + SIZE + 5, label) for value, label in columns),
        "</g>",
        text(2, TOP - 19, shortened(y_axis.label, WIDTH - 4)),
        text(_centred((left + right) / 2, below), BOTTOM + 2 * SIZE + 13, below, 'text-anchor="middle"'),
    ]
    return Frame(x, y, "".join(parts))


def _fitting(x: Scale) -> list[tuple[float, str]]:
    """As many ticks of x as stand side by side."""
    for most in range(8, 0, -1):
        ticks = x.ticks(most)
        if all(
            x(after) - x(before) > (width(one) + width(other)) / 2 + 10
            for (before, one), (after, other) in pairwise(ticks)
        ):
            break
    return ticks


def _centred(middle: float, label: str) -> float:
    """The middle of a label that wants to stand at `middle` and must not leave the figure."""
    half = width(label) / 2
    return min(max(middle, half + 2), WIDTH - half - 2)
