"""Labels beside points: the nearest free place around each, so that no words cover words or marks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin
from typing import final

from seqloom.report.figures.labels import width
from seqloom.report.figures.svg import SIZE

_MARK = 6.0  # half the side of a mark
_RINGS = (11.0, 17.0, 26.0, 38.0, 54.0, 74.0, 100.0, 132.0, 170.0)


@final
@dataclass(frozen=True)
class Box:
    """A rectangle in pixels; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two share area."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def within(self, other: "Box") -> bool:
        """Whether this one lies inside the other."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


def placed(
    names: Sequence[str], points: Sequence[tuple[float, float]], lines: Sequence[Box], room: Box
) -> list[Box | None]:
    """The box of each name, near its point (pixels) and inside `room`.

    Boxes never meet one another or a mark, and stay off `lines` (thin boxes) where that can be. None where there
    is no free place. Names in the densest company choose first, because they have the least choice.
    """
    marks = [Box(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in points]
    crowd = [sum(hypot(x - a, y - b) < 60 for a, b in points) for x, y in points]
    taken: list[Box] = []
    boxes: list[Box | None] = [None] * len(names)
    for index in sorted(range(len(names)), key=lambda index: -crowd[index]):
        free = [
            box
            for box in _around(*points[index], width(names[index]))
            if box.within(room) and not any(box.meets(other) for other in (*taken, *marks))
        ]
        if not free:
            everywhere = _everywhere(*points[index], width(names[index]), room)
            free = [box for box in everywhere if not any(box.meets(other) for other in (*taken, *marks))]
        clear = [box for box in free[:40] if not any(box.meets(line) for line in lines)]
        best = next(iter(clear or free), None)
        boxes[index] = best
        if best:
            taken.append(best)
    return boxes


def _around(x: float, y: float, wide: float) -> Iterator[Box]:
    """Places around a point, the nearest first: right, left, above, below, then between, in growing rings."""
    tall = SIZE + 2.0
    for ring in _RINGS:
        for turn in (0, 4, 2, 6, 1, 7, 3, 5) if ring < 20 else range(16):
            angle = turn * pi / (4 if ring < 20 else 8)
            across, down = cos(angle), -sin(angle)
            # A box to the right begins at the ring, one to the left ends there, one above or below is centred.
            left = x + ring * across - wide * (0.5 - 0.5 * _side(across))
            top = y + ring * down - tall * (0.5 - 0.5 * _side(down))
            yield Box(left, top, left + wide, top + tall)


def _everywhere(x: float, y: float, wide: float, room: Box) -> list[Box]:
    """Places on a grid over the whole room, the nearest first: for a point whose surroundings are full."""
    tall = SIZE + 2.0
    places = [
        Box(left, top, left + wide, top + tall)
        for left in _arranged(room.left, room.right - wide, 12.0)
        for top in _arranged(room.top, room.bottom - tall, 6.0)
    ]
    return sorted(places, key=lambda box: hypot((box.left + box.right) / 2 - x, (box.top + box.bottom) / 2 - y))


def _arranged(low: float, high: float, step: float) -> list[float]:
    """The numbers low, low + step, … up to high."""
    return [low + step * place for place in range(int((high - low) / step) + 1)] if high >= low else []


def _side(part: float) -> float:
    return 0.0 if abs(part) < 0.2 else 1.0 if part > 0 else -1.0
