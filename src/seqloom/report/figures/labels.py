"""Where words go: how wide a text is, and how labels in a column are moved apart."""

import unicodedata
from collections.abc import Sequence

from seqloom.report.figures.svg import SIZE

_NARROW, _WIDE = frozenset("iljtfrI.,:;|!'`()[]/ "), frozenset("mwMW@%—…×")


def width(text: str, size: float = SIZE) -> float:
    """An upper estimate of the width of a text in pixels, for fonts such as Segoe UI, Roboto and DejaVu Sans."""
    return sum(map(_advance, text)) * size


def shortened(text: str, room: float, size: float = SIZE) -> str:
    """The text, or as much of its beginning as fits `room` pixels, with an ellipsis."""
    if width(text, size) <= room:
        return text
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def apart(wanted: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Places at least `gap` apart within [top, bottom], in the order of the wanted ones and as near them as may be.

    Neighbours that are too near form a block, which moves to the mean of what its members want (least squares).
    Where the room is too small for all, `gap` shrinks to what it holds.
    """
    if not wanted:
        return []
    gap = min(gap, (bottom - top) / max(1, len(wanted) - 1))
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    # In these coordinates the gaps are gone, and the task is a monotone regression by pooling of neighbours.
    aims = [wanted[index] - place * gap for place, index in enumerate(order)]
    blocks: list[tuple[float, int]] = []
    for aim in aims:
        mean, count = aim, 1
        while blocks and blocks[-1][0] >= mean:
            before, members = blocks.pop()
            mean, count = (before * members + mean * count) / (members + count), members + count
        blocks.append((mean, count))
    ceiling = bottom - (len(wanted) - 1) * gap
    level = [min(max(mean, top), ceiling) for mean, count in blocks for _ in range(count)]
    places = [0.0] * len(wanted)
    for position, index in enumerate(order):
        places[index] = level[position] + position * gap
    return places


def _advance(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in _WIDE:
        return 0.98
    if character in _NARROW:
        return 0.4
    return 0.76 if character.isupper() else 0.64
