"""How the twelve slots of a figure look: a colour each, and a shape and a dash that tell them apart without colour."""

from seqloom.report.figures.palette import SLOTS
from seqloom.report.figures.svg import MARK, coordinate

# Around the origin, about 9 pixels across, of equal visual weight: disc, square, two triangles, diamond, cross.
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-5l4.8 8.4h-9.6z",
    "M0-5.2l5.2 5.2-5.2 5.2-5.2-5.2z",
    "M0 5l4.8-8.4h-9.6z",
    "M-1.6-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",
)
_AGAIN = (("1.5 3.5", "14 3 2 3 2 3"), ("16 5", "16 4 5 4"))


def colour(slot: int) -> str:
    """The colour of a slot, as a variable of the page's style."""
    return f"var(--series-{slot % SLOTS})"


def dash(slot: int, dashed: bool) -> str:
    """The attribute that dashes a line, with a space before it; none for a solid line.

    The first six slots are solid, the other six dash-dotted; a dashed line differs from both. Beyond twelve slots the
    colours come again, twice with dashes of their own.
    """
    later, again = slot % SLOTS >= len(_SHAPES), min(slot // SLOTS, len(_AGAIN))
    pattern = {(False, False): "", (True, False): "10 3 2 3", (False, True): "6 4", (True, True): "2 3"}[later, dashed]
    if again and not dashed:
        pattern = _AGAIN[again - 1][later]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def shape(slot: int, attributes: str = "") -> str:
    """The mark of a slot at the origin: filled for the first six, hollow for the others."""
    fill = colour(slot) if slot % SLOTS < len(_SHAPES) else "var(--paper)"
    gap = " " if attributes else ""
    return (
        f'<path d="{_SHAPES[slot % len(_SHAPES)]}" fill="{fill}" stroke="{colour(slot)}" stroke-width="1.4"'
        f"{gap}{attributes}/>"
    )


def shape_at(slot: int, x: float, y: float) -> str:
    """The mark of a slot at a place."""
    return shape(slot, f'transform="translate({coordinate(x)} {coordinate(y)})"')


def marker(slot: int) -> str:
    """The definition that repeats the mark of a slot at every point of a path, and costs nothing a point."""
    return (
        f'<marker id="{MARK}-{slot % SLOTS}" viewBox="-7 -7 14 14" markerWidth="14" markerHeight="14" '
        f'markerUnits="userSpaceOnUse">{shape(slot)}</marker>'
    )


def marked(slot: int) -> str:
    """The attributes, with a space before them, that make a path repeat the mark of a slot at its points."""
    name = f"url(#{MARK}-{slot % SLOTS})"
    return f' marker-start="{name}" marker-mid="{name}" marker-end="{name}"'
