"""The names of lines: at their right ends, moved apart, or in a legend below the field."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import final

from seqloom.report.figures.frame import BOTTOM, HEIGHT, TOP
from seqloom.report.figures.labels import apart, shortened, width
from seqloom.report.figures.strokes import colour, dash, shape_at
from seqloom.report.figures.svg import SIZE, WIDTH, coordinate, place, text

SWATCH = 24.0
ROW = 19.0
_LEADER, _MOST, _WIDEST = 18.0, 8, 175.0


@final
@dataclass(frozen=True)
class Entry:
    """One name to show; slot None is a reference line, in ink and without a mark."""

    name: str
    slot: int | None
    dashed: bool = False


def direct(entries: Sequence[Entry]) -> bool:
    """Whether the names can stand beside the ends of their lines: few enough, and short enough."""
    lines = sum(entry.slot is not None for entry in entries)
    fits = len(entries) * ROW <= BOTTOM - TOP
    return lines <= _MOST and fits and all(width(entry.name) <= _WIDEST for entry in entries)


def margin(entries: Sequence[Entry]) -> float:
    """The pixels that direct labels need on the right of the field."""
    return _LEADER + SWATCH + 8 + max(width(entry.name) for entry in entries)


def at_ends(entries: Sequence[Entry], ends: Sequence[tuple[float, float]], right: float) -> str:
    """Direct labels: each with a swatch and a thin leader from the end of its line (pixels)."""
    parts = []
    heights = apart([y for _, y in ends], ROW, TOP + 4, BOTTOM - 4)
    for entry, (x, y), height in zip(entries, ends, heights, strict=True):
        stroke = "var(--ink)" if entry.slot is None else colour(entry.slot)
        leader = f"M{place(max(x, 0) + 2, y)}L{place(right + _LEADER - 2, height)}"
        parts.append(f'<path d="{leader}" fill="none" stroke="{stroke}" opacity=".6"/>')
        parts.append(_entry(entry, right + _LEADER, height, entry.name))
    return "".join(parts)


def below(entries: Sequence[Entry]) -> tuple[str, float]:
    """A legend in columns under the figure, and the height of the figure with it."""
    widest = min(max(width(entry.name) for entry in entries), WIDTH - SWATCH - 12)
    columns = max(1, int(WIDTH / (SWATCH + 22 + widest)))
    rows = ceil(len(entries) / columns)
    parts = [
        _entry(
            entry,
            4 + (index // rows) * (WIDTH / columns),
            HEIGHT + 10 + (index % rows) * ROW,
            shortened(entry.name, widest),
        )
        for index, entry in enumerate(entries)
    ]
    return "".join(parts), HEIGHT + rows * ROW + 6


def _entry(entry: Entry, x: float, y: float, name: str) -> str:
    line = f'<path d="M{place(x, y)}h{coordinate(SWATCH)}" fill="none" '
    if entry.slot is None:
        swatch = line + 'stroke="var(--ink)" stroke-width="1.4" stroke-dasharray="1.5 3.5"/>'
    else:
        swatch = line + f'stroke="{colour(entry.slot)}" stroke-width="2"{dash(entry.slot, entry.dashed)}/>'
        swatch += shape_at(entry.slot, x + SWATCH / 2, y)
    return swatch + text(x + SWATCH + 6, y + SIZE * 0.36, name)
