"""Places of the ticks of an axis: 1, 2 or 5 × 10ⁿ apart, or at the decades and their 2 and 5."""

from math import ceil, floor, log10

_LADDER = (1.0, 2.0, 5.0)


def nice_step(span: float, most: int) -> float:
    """The smallest 1, 2 or 5 × 10ⁿ that cuts `span` > 0 into at most `most` parts."""
    power = 10.0 ** floor(log10(span / most))
    return next(step * power for step in (*_LADDER, 10.0, 20.0) if span / (step * power) <= most + 1e-9)


def even(low: float, high: float, most: int) -> tuple[list[float], float]:
    """The multiples of a nice step within [low, high], at most `most` + 1 of them, and the step."""
    step = nice_step(high - low, most)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [_exact(place, step) for place in range(first, last + 1)], step


def enclosing(low: float, high: float, most: int) -> tuple[float, float]:
    """The range [low, high] widened to nice ticks, such that `even` over it has ticks at both ends."""
    step = nice_step(high - low, most)
    below, above = _exact(floor(low / step + 1e-9), step), _exact(ceil(high / step - 1e-9), step)
    # The wider range may need a longer step, whose ticks lie elsewhere.
    return (below, above) if nice_step(above - below, most) == step else enclosing(below, above, most)


def logarithmic(low: float, high: float, most: int) -> list[float]:
    """At most about `most` ticks within [low, high], both positive.

    Decades with their 2 and 5 where there is room, decades (or every second, third … one) where there is not, and
    evenly spaced numbers where the range is too narrow to hold three of the former.
    """
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    fine = [value for value in (_decimal(lead, n) for n in powers for lead in (1, 2, 5)) if _within(value, low, high)]
    if len(fine) < 3:
        return [value for value in even(low, high, most)[0] if value > 0]
    if len(fine) <= most:
        return fine
    decades = [n for n in powers if _within(_decimal(1, n), low, high)]
    if len(decades) < 2:
        return fine[:: ceil(len(fine) / most)]
    stride = ceil(len(decades) / most)
    return [_decimal(1, n) for n in decades if n % stride == 0]


def _within(value: float, low: float, high: float) -> bool:
    return low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


def _decimal(lead: int, power: int) -> float:
    return float(f"{lead}e{power}")


def _exact(place: int, step: float) -> float:
    """`place` × `step` as the float nearest to the decimal number: 3 × 0.1 is 0.3."""
    return float(f"{place * step:.12g}")
