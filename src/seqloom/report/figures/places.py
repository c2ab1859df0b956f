"""The sides of a heat map: where its field lies, and the numbers or words of its rows and columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from seqloom.report.figures.frame import MUTED
from seqloom.report.figures.labels import shortened, width
from seqloom.report.figures.numerals import number
from seqloom.report.figures.svg import SIZE, WIDTH, coordinate, text
from seqloom.report.figures.ticks import even

_WORD = 96.0  # the most pixels of a word beside the field
_SMALL = 13.0  # size of words; a row of them needs a little more
_TALL = 330.0  # of a field that is not square
_LOW = 120.0  # the least height, for the numbers of the colour bar


@final
@dataclass(frozen=True)
class Sides:
    """The edges of the field in pixels, where the space below its words begins, and the SVG of its numbers or words."""

    left: float
    top: float
    right: float
    bottom: float
    below: float
    body: str


def indices(rows: int, columns: int, tall: int, wide: int, top: float, margin: float, *, square: bool) -> Sides:
    """Numbers of some rows and columns (from 0), where a cell covers `tall` rows and `wide` columns of the array."""
    left = width(number(rows * tall)) + 12
    across = WIDTH - margin - left
    down = _TALL
    if square:
        across = down = min(across, 400.0)
    # Few cells would be larger than anything they could say.
    across, down = min(across, columns * 60.0), min(down, max(rows * 60.0, _LOW))
    room = width(number(columns * wide)) + 12
    parts = [f'<g text-anchor="end" {MUTED}>']
    parts += [
        text(left - 6, top + (place / tall + 0.5 / tall) * down / rows + SIZE * 0.36, number(place))
        for place in _some(rows * tall, int(down / 24))
    ]
    parts.append(f'</g><g text-anchor="middle" {MUTED}>')
    parts += [
        text(left + (place / wide + 0.5 / wide) * across / columns, top + down + SIZE + 4, number(place))
        for place in _some(columns * wide, int(across / room))
    ]
    parts.append("</g>")
    return Sides(left, top, left + across, top + down, top + down + SIZE + 8, "".join(parts))


def tokens(words: Sequence[str], top: float, margin: float) -> Sides | None:
    """Words along both sides of a square field, those of the columns upright; None where the cells are too small."""
    shown = [shortened(_visible(word), _WORD, _SMALL) for word in words]
    longest = max(width(word, _SMALL) for word in shown)
    left = longest + 8
    side = min(WIDTH - margin - left, max(48.0 * len(words), _LOW), 460.0)
    cell = side / len(words)
    if cell < _SMALL:
        return None
    parts = [f'<g text-anchor="end" font-size="{coordinate(_SMALL)}" {MUTED}>']
    for index, word in enumerate(shown):
        middle = (index + 0.5) * cell
        parts.append(text(left - 6, top + middle + _SMALL * 0.36, word))
        x, y = coordinate(left + middle + _SMALL * 0.36), coordinate(top + side + 6)
        parts.append(text(0, 0, word, f'transform="translate({x} {y}) rotate(-90)"'))
    parts.append("</g>")
    return Sides(left, top, left + side, top + side, top + side + longest + 8, "".join(parts))


def _some(count: int, most: int) -> list[int]:
    """Round indices below `count`, at most about `most`."""
    if count == 1:
        return [0]
    values, step = even(0, count - 1, max(1, min(most, count - 1)))
    return [int(value) for value in values] if step >= 1 else list(range(count))


def _visible(word: str) -> str:
    """A token as words: spaces at its ends are dropped; one of nothing but spaces and line ends shows what it is."""
    return " ".join(word.split()) or ("⏎" if "\n" in word else "␣")
