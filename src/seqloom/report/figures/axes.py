"""An axis of a figure: its words, and the scale from values to pixels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, frexp, isfinite, log10
from typing import final

from seqloom.report.figures import ticks
from seqloom.report.figures.numerals import number, numbers


@final
@dataclass(frozen=True)
class Axis:
    """What an axis shows: a label with its unit, such as "cost (nats a token)"; `log` makes its scale logarithmic."""

    label: str
    log: bool = False


@final
@dataclass(frozen=True)
class Scale:
    """A range of values [low, high], drawn from pixel `start` to pixel `end` (`end` < `start` runs upwards)."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    doubled: tuple[float, ...] = ()
    """all values that are shown, where each is the least one times a power of two: they are its ticks"""

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        if self.log:
            part = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most about `most` nice values within the range, with their text."""
        if self.log:
            every = ceil(len(self.doubled) / most)
            values = list(self.doubled[::every]) if self.doubled else ticks.logarithmic(self.low, self.high, most)
            return [(value, number(value)) for value in values]
        places, step = ticks.even(self.low, self.high, most)
        return list(zip(places, numbers(places, step), strict=True))

    def over(self, start: float, end: float) -> "Scale":
        """The same range over other pixels."""
        return replace(self, start=start, end=end)


def spread(values: Sequence[float], axis: Axis, *, figure: str, enclose: bool, pad: float = 0.0) -> Scale:
    """The scale (over pixels 0 … 1) that holds all of `values`.

    `pad` is the share of the range left free at both ends; `enclose` widens an even scale to its outer ticks.
    Errors: ValueError with the name of `figure` where there is no value, or one ≤ 0 for a logarithmic axis.
    """
    finite = [value for value in values if isfinite(value)]
    if not finite:
        raise ValueError(f"figure “{figure}”: no finite value for the axis “{axis.label}”; nothing can be drawn")
    low, high = min(finite), max(finite)
    if axis.log:
        if low <= 0:
            raise ValueError(
                f"figure “{figure}”: the axis “{axis.label}” is logarithmic and cannot show {low:g}; "
                "leave values of 0 and below out or use a linear axis"
            )
        if high / low < 1 + 1e-9:
            low, high = low / 1.5, high * 1.5
        ratio = (high / low) ** pad
        return Scale(low / ratio, high * ratio, 0, 1, True, _doubled(finite))
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    room = pad * (high - low)
    # Room below 0 would suggest that there can be values.
    low, high = (max(0.0, low - room) if low >= 0 else low - room), high + room
    if enclose:
        low, high = ticks.enclosing(low, high, 6)
    return Scale(low, high, 0, 1)


def _doubled(values: Sequence[float]) -> tuple[float, ...]:
    """All values, each once; none where there are fewer than three or one is not the least times a power of two."""
    apart = sorted(set(values))
    return tuple(apart) if len(apart) > 2 and all(frexp(value / apart[0])[0] == 0.5 for value in apart) else ()
