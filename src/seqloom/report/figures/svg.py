"""The parts of an SVG text: escaped words, short coordinates, and the element around a figure."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

FONT = "system-ui,-apple-system,Segoe UI,Roboto,DejaVu Sans,sans-serif"
SIZE = 15  # of all text, in units of a view box 640 wide: 8.4 px where a figure is 360 px wide
WIDTH = 640


def words(text: str) -> str:
    """Text that is safe between tags and within attributes; characters that XML 1.0 cannot hold become U+FFFD."""
    legal = "".join(
        c if c in "\t\n\r" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff") else "�"
        for c in text
    )
    return escape(legal, {'"': "&quot;"})


def coordinate(value: float) -> str:
    """A length in pixels with at most one decimal: 12.5, 12, -.5."""
    text = f"{value:.1f}".removesuffix(".0")
    if text in ("-0", ""):
        return "0"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def place(x: float, y: float) -> str:
    """A point of a path."""
    return f"{coordinate(x)} {coordinate(y)}"


def path(points: Sequence[tuple[float, float]]) -> str:
    """The `d` of a path through points (pixels); consecutive points that round to the same place are drawn once."""
    rounded = [place(x, y) for x, y in points]
    kept = rounded[:1] + [after for before, after in pairwise(rounded) if after != before]
    # A single point has no length; h0 lets round caps and markers show it.
    return f"M{kept[0]}h0" if len(kept) == 1 else "M" + "L".join(kept)


def outline(points: Sequence[tuple[float, float]]) -> str:
    """The `d` of a closed path through points (pixels), in steps relative to the point before: half as long."""
    tenths = [(round(x * 10), round(y * 10)) for x, y in points]
    steps = [(a - c, b - d) for (c, d), (a, b) in pairwise(tenths) if (a, b) != (c, d)]
    start = place(tenths[0][0] / 10, tenths[0][1] / 10)
    return f"M{start}" + "".join(f"l{place(across / 10, down / 10)}" for across, down in steps) + "z"


def text(x: float, y: float, content: str, attributes: str = "") -> str:
    """One line of text with its baseline at y."""
    gap = " " if attributes else ""
    return f'<text x="{coordinate(x)}" y="{coordinate(y)}"{gap}{attributes}>{words(content)}</text>'


def element(body: str, *, title: str, description: str, height: float, width: float = WIDTH) -> str:
    """The figure: one <svg> with its title and description; MARK in the body becomes a name unique to the content."""
    identity = hashlib.sha256(f"{title}\0{description}\0{body}".encode(errors="replace")).hexdigest()[:10]
    name = f"figure-{identity}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" '
        f'viewBox="0 0 {coordinate(width)} {coordinate(height)}" width="100%" '
        f'role="img" aria-labelledby="{name}-title {name}-description" '
        f'font-family="{FONT}" font-size="{SIZE}" fill="var(--ink)">'
        f'<title id="{name}-title">{words(title)}</title>'
        f'<desc id="{name}-description">{words(description)}</desc>'
        f"{body.replace(MARK, name)}</svg>"
    )


MARK = "\x00"  # stands for the name of the figure in ids until the content is known; no escaped text can hold it
