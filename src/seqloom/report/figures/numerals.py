"""Numbers as a reader expects them on an axis: 0.25, 1,500, 250k, 2×10⁻⁷."""

from collections.abc import Sequence
from math import floor, log10

_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """One value in as few digits as it needs (at most six); k, M, G, T from 100,000 on."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e15 or size < 1e-4:
        power = floor(log10(size) + 1e-12)
        head = f"{value / 10.0**power:.3g}"
        return _minus(head.replace("1", "10") if head in ("1", "-1") else f"{head}×10") + str(power).translate(_RAISED)
    if size >= 1e5:
        scale, suffix = next(pair for pair in _SUFFIXES if size >= pair[0])
        return _minus(f"{value / scale:.6g}") + suffix
    # Twelve digits hide what binary floats add to 0.3; an axis has no ticks so fine.
    text = f"{value:,.10f}" if size < 1 else f"{value:,.6f}"
    return _minus(text.rstrip("0").rstrip("."))


def numbers(values: Sequence[float], step: float) -> list[str]:
    """The evenly spaced ticks of one axis, all with the same suffix and the precision of `step`."""
    largest = max(abs(value) for value in values)
    if largest >= 1e15 or step < 1e-6:
        return [number(value) for value in values]
    scale, suffix = next((pair for pair in _SUFFIXES if largest >= pair[0]), (1.0, "")) if largest >= 1e5 else (1.0, "")
    places = max(0, -floor(log10(step / scale) + 1e-9))
    return ["0" if value == 0 else _minus(f"{value / scale:,.{places}f}") + suffix for value in values]


def _minus(text: str) -> str:
    return text.replace("-", "−")
