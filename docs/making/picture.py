"""A reach map as a picture: outputs from the top, inputs from the left, the colour a logarithm.

The largest slope is the deepest colour, a thousandth of it or less the palest; what is not read at all stays blank.
"""

from torch import Tensor

from seqloom.report.figures import standalone
from seqloom.report.figures.cells import strokes
from seqloom.report.figures.frame import MUTED
from seqloom.report.figures.ramps import STEPS, fill, sequential
from seqloom.report.figures.svg import SIZE, coordinate, element, text

DECADES = 3
BLANK = "#ffffff"
"""on dark paper too, where the deepest colour would look like none; in small letters, so that no theme replaces it"""
UNREAD = 1e-9
"""of the largest: less is the rounding of a Fourier transform"""
SIDE = 300.0
LEFT, TOP = 44.0, 34.0
BAR = 14.0
LABELS = ("largest", "1/10", "1/100", "1/1000")


def picture(found: Tensor, title: str, description: str) -> str:
    """The map (T, T) with its axes and the meaning of its colours: an SVG file."""
    T = len(found)
    cell = SIDE / T
    ticks = range(0, T, max(1, T // 4))
    right = LEFT + SIDE + 18
    parts = [
        f'<rect x="{coordinate(LEFT)}" y="{coordinate(TOP)}" width="{SIDE:g}" height="{SIDE:g}" fill="{BLANK}"/>',
        _placed(_field(found), LEFT, TOP + cell / 2, cell, cell),
        f'<path d="M{coordinate(LEFT)} {coordinate(TOP)}h{SIDE:g}v{SIDE:g}h-{SIDE:g}z" fill="none" '
        'stroke="var(--ink)" opacity=".4"/>',
        f'<g text-anchor="end" {MUTED}>',
        *(text(LEFT - 6, TOP + (place + 0.5) * cell + SIZE * 0.36, str(place)) for place in ticks),
        f'</g><g text-anchor="middle" {MUTED}>',
        *(text(LEFT + (place + 0.5) * cell, TOP + SIDE + SIZE + 4, str(place)) for place in ticks),
        "</g>",
        text(2, 17, "output t"),
        text(LEFT + SIDE / 2, TOP + SIDE + 2 * SIZE + 10, "input s", 'text-anchor="middle"'),
        _placed(_ramp(), right, TOP + SIDE / (STEPS + 1) / 2, BAR, SIDE / (STEPS + 1)),
        f"<g {MUTED}>",
        *(text(right + BAR + 6, TOP + 6 + at * (SIDE - 6) / DECADES, label) for at, label in enumerate(LABELS)),
        "</g>",
    ]
    size = {"width": right + BAR + 70, "height": TOP + SIDE + 2 * SIZE + 18}
    return standalone(element("".join(parts), title=title, description=description, **size))


def thumbnail(found: Tensor) -> str:
    """The map alone, in units of a place: an SVG file."""
    T = len(found)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {T} {T}" width="{2 * T}" height="{2 * T}">'
        f'<rect width="{T}" height="{T}" fill="{BLANK}"/>{_placed(_field(found), 0, 0.5, 1, 1)}</svg>\n'
    )


def steps(found: Tensor) -> list[list[int | None]]:
    """The colour of each cell, from 0 to `STEPS`; None where an output does not read an input."""
    largest = float(found.max())
    if not largest > 0:
        raise ValueError("the map has no slope at all: nothing can be drawn")
    shares = (1 + (found / largest).log10() / DECADES).tolist()
    read = (found > UNREAD * largest).tolist()
    return [
        [sequential(share) if is_read else None for share, is_read in zip(line, reads, strict=True)]
        for line, reads in zip(shares, read, strict=True)
    ]


def _field(found: Tensor) -> str:
    return "".join(f'<path stroke="{fill(step, False)}" d="{d}"/>' for step, d in strokes(steps(found)).items())


def _ramp() -> str:
    """The colours from the deepest on top to the palest, each a stroke."""
    return "".join(f'<path stroke="{fill(step, False)}" d="M0 {STEPS - step}h1"/>' for step in range(STEPS + 1))


def _placed(strokes: str, x: float, y: float, across: float, down: float) -> str:
    """Strokes of one unit each, stretched; the middle of the first lies at y."""
    moved = f"translate({coordinate(x)} {y:.2f}) scale({across:.6g} {down:.6g})"
    return f'<g transform="{moved}" fill="none" stroke-width="1" shape-rendering="crispEdges">{strokes}</g>'
