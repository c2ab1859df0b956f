"""Named points in a plane, with intervals, labels that do not overlap, and the Pareto front as steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, isfinite
from typing import final

from seqloom.report.figures import legend
from seqloom.report.figures.axes import Axis, Scale, spread
from seqloom.report.figures.frame import BOTTOM, HEIGHT, TOP, Frame, frame
from seqloom.report.figures.labels import shortened
from seqloom.report.figures.placing import Box, placed
from seqloom.report.figures.strokes import colour, shape_at
from seqloom.report.figures.svg import SIZE, WIDTH, coordinate, element, place, text, words

_LONGEST = 220.0  # pixels of a label


@final
@dataclass(frozen=True)
class Point:
    """One point; `slot` picks colour and mark out of twelve, `low` and `high` are an interval of y."""

    name: str
    x: float
    y: float
    slot: int
    low: float | None = None
    high: float | None = None


def points(marks: Sequence[Point], *, title: str, description: str, x: Axis, y: Axis, front: Sequence[str] = ()) -> str:
    """The figure as one <svg> element; `front` names the points that a step line joins, and the description says so.

    Points with a coordinate that is not finite are left out, and the description names them.
    Errors: ValueError where no point is left, `front` names none of them, or a logarithmic axis would have to show a
    value that is not positive.
    """
    shown = [one for one in marks if isfinite(one.x) and isfinite(one.y)]
    if not shown:
        raise ValueError(f"figure “{title}”: there is no point with finite coordinates to draw; give at least one")
    unknown = [name for name in front if name not in {one.name for one in marks}]
    if unknown:
        raise ValueError(f"figure “{title}”: the front names “{unknown[0]}”, which is not among the points")
    heights = [value for one in shown for value in (one.y, *_interval(one))]
    across = spread([one.x for one in shown], x, figure=title, enclose=False, pad=0.07)
    up = spread(heights, y, figure=title, enclose=True, pad=0.06)
    field = frame(across, up, x, y, margin=18)
    best = sorted((one for one in shown if one.name in front), key=lambda one: (one.x, -one.y))
    steps = [corner for one, after in pairwise(best) for corner in ((one.x, one.y), (after.x, one.y))]
    steps += [(one.x, one.y) for one in best[-1:]]
    parts = [field.body, _steps(steps, field), *(_whisker(one, field.x, field.y) for one in shown)]
    parts += [f"<g><title>{words(one.name)}</title>{_mark(one, field)}</g>" for one in shown]
    names, rest = _names(shown, _thin(shown, steps, field), field)
    parts.append(names)
    height = HEIGHT
    if rest:
        names, height = legend.below([legend.Entry(one.name, one.slot) for one in rest])
        parts.append(names)
    said = [description]
    if best:
        said.append("On the Pareto front: " + ", ".join(one.name for one in best) + ".")
    if len(shown) < len(marks):
        said.append("Without finite values: " + ", ".join(one.name for one in marks if one not in shown) + ".")
    return element("".join(parts), title=title, description=" ".join(said), height=height)


def _mark(one: Point, field: Frame) -> str:
    return shape_at(one.slot, field.x(one.x), field.y(one.y))


def _steps(corners: Sequence[tuple[float, float]], field: Frame) -> str:
    if len(corners) < 2:
        return ""
    d = "L".join(place(field.x(at), field.y(value)) for at, value in corners)
    return f'<path class="front" d="M{d}" fill="none" stroke="var(--ink)" stroke-width="1.4" opacity=".5"/>'


def _interval(one: Point) -> tuple[float, ...]:
    ends = tuple(value for value in (one.low, one.high) if value is not None and isfinite(value))
    return ends if len(ends) == 2 else ()


def _whisker(one: Point, x: Scale, y: Scale) -> str:
    if not _interval(one):
        return ""
    low, high = (y(value) for value in _interval(one))
    left = x(one.x) - 4
    d = f"M{place(left, low)}h8m-4 0V{coordinate(high)}m-4 0h8"
    return f'<path class="interval" d="{d}" fill="none" stroke="{colour(one.slot)}" stroke-width="1.4"/>'


def _thin(shown: Sequence[Point], steps: Sequence[tuple[float, float]], field: Frame) -> list[Box]:
    """The lines that labels keep off where they can."""
    ends = [((field.x(a), field.y(b)), (field.x(c), field.y(d))) for (a, b), (c, d) in pairwise(steps)]
    ends += [
        ((field.x(one.x), field.y(low)), (field.x(one.x), field.y(high)))
        for one in shown
        for low, high in [_interval(one)] * bool(_interval(one))
    ]
    return [Box(min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1) for (a, b), (c, d) in ends]


def _names(shown: Sequence[Point], lines: Sequence[Box], field: Frame) -> tuple[str, list[Point]]:
    """The labels, with a leader where one stands off its point; and the points without room for their names."""
    names = [shortened(one.name, _LONGEST) for one in shown]
    pixels = [(field.x(one.x), field.y(one.y)) for one in shown]
    boxes = placed(names, pixels, lines, Box(field.x.start + 2, TOP - 12, WIDTH - 2, BOTTOM - 2))
    halo = 'stroke="var(--paper)" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
    parts, leaders, rest = [], [], []
    for name, (x, y), box, one in zip(names, pixels, boxes, shown, strict=True):
        if box is None:
            rest.append(one)
            continue
        nearest = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
        if hypot(nearest[0] - x, nearest[1] - y) > 18:
            leaders.append(f'<path d="M{place(x, y)}L{place(*nearest)}" stroke="{colour(one.slot)}" opacity=".7"/>')
        parts.append(text(box.left, box.top + SIZE * 0.92, name))
    return f"{''.join(leaders)}<g {halo}>{''.join(parts)}</g>", rest
