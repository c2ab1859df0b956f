"""The marks of a figure of lines: a curve with its gaps, the band around it, a reference level."""

from collections.abc import Iterator, Sequence
from math import isfinite

from seqloom.report.figures.axes import Scale
from seqloom.report.figures.strokes import colour, dash, marked
from seqloom.report.figures.svg import coordinate, outline, path, place, words

_SPARSE = 90.0  # pixels between the marks of a curve whose points are not drawn each


def runs(x: Sequence[float], *columns: Sequence[float | None]) -> list[list[tuple[float, ...]]]:
    """The stretches of places where x and all columns are finite numbers, each as rows (x, value, …)."""
    found: list[list[tuple[float, ...]]] = []
    open_run: list[tuple[float, ...]] = []
    for row in zip(x, *columns, strict=True):
        values = tuple(float(value) for value in row if value is not None and isfinite(value))
        if len(values) == len(row):
            if not open_run:
                found.append(open_run)
            open_run.append(values)
        else:
            open_run = []
    return found


def curve(
    name: str, slot: int, found: Sequence[Sequence[tuple[float, ...]]], x: Scale, y: Scale, *, dashed: bool, marks: bool
) -> str:
    """The line through each run; marks at each point, or at a few of them so that lines differ without colour."""
    pixels = [[(x(at), y(value)) for at, value in run] for run in found]
    drawn = "".join(path(run) for run in pixels)
    line = (
        f'<path class="curve" d="{drawn}" fill="none" stroke="{colour(slot)}" stroke-width="2" stroke-linejoin="round" '
        f'stroke-linecap="{"butt" if dashed else "round"}"{dash(slot, dashed)}'
    )
    if marks:
        return f"{line}{marked(slot)}><title>{words(name)}</title></path>"
    few = path(list(_sparse([point for run in pixels for point in run], slot)))
    return f'{line}><title>{words(name)}</title></path><path d="{few}" fill="none"{marked(slot)}/>'


def band(slot: int, found: Sequence[Sequence[tuple[float, ...]]], x: Scale, y: Scale) -> str:
    """The area between low and high of each run; nothing where there is no run."""
    shapes = []
    for run in found:
        upper = [(x(at), y(high)) for at, _, high in run]
        lower = [(x(at), y(low)) for at, low, _ in reversed(run)]
        if len(run) == 1:
            # An area without width would not be seen.
            upper, lower = [upper[0], (upper[0][0] + 1.5, upper[0][1])], [(lower[0][0] + 1.5, lower[0][1]), lower[0]]
        shapes.append(outline(upper + lower))
    return f'<path class="band" d="{"".join(shapes)}" fill="{colour(slot)}" opacity=".22"/>' if shapes else ""


def level(name: str, height: float, x: Scale, y: Scale) -> str:
    """A dotted line across the field at a height."""
    return (
        f'<path class="level" d="M{place(x.start, y(height))}H{coordinate(x.end)}" fill="none" stroke="var(--ink)" '
        f'stroke-width="1.4" stroke-dasharray="1.5 3.5"><title>{words(name)}</title></path>'
    )


def _sparse(points: Sequence[tuple[float, float]], slot: int) -> Iterator[tuple[float, float]]:
    """Some of the points, evenly over the width and at other places for other slots, and the last one."""
    following = points[0][0] + (slot % 6 + 0.5) * _SPARSE / 6
    for x, y in points[:-1]:
        if x >= following and points[-1][0] - x > 24:
            yield x, y
            following = x + _SPARSE
    yield points[-1]
