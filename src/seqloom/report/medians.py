"""Smoothing: medians of a loss over stretches of batches that do not overlap, and the band between the seeds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median, median_high
from typing import final

STRETCHES = (1, 10, 50, 250, 1000, 5000, 25000, 100000)
"""possible numbers of batches of a median"""
MOST = 400
"""points of a curve of raw values"""
USUAL = 60
"""points of a curve that is easily read"""


@final
@dataclass(frozen=True)
class Curve:
    """At `batches` (the middle of each stretch): the mean over seeds of their medians, the lowest and the highest."""

    batches: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


@final
@dataclass(frozen=True)
class Stretch:
    """Consecutive losses of one run: the step in their middle, and the median, the lowest and the highest of them."""

    middle: float
    median: float
    lowest: float
    highest: float


def every_stretch(losses: Sequence[tuple[int, float]], length: int) -> Iterator[Stretch]:
    """The (step, loss) of a run in stretches of `length`, of which the last may be shorter. A median is one of them."""
    for first in range(0, len(losses), length):
        steps, values = zip(*losses[first : first + length], strict=True)
        yield Stretch((steps[0] + steps[-1]) / 2, median_high(values), min(values), max(values))


def stretches(batches: int) -> tuple[list[int], int]:
    """The stretches that suit a training of that many batches, and the one whose curve is nearest to 60 points."""
    suitable = [stretch for stretch in STRETCHES if 4 <= batches / stretch <= MOST] or [max(1, -(-batches // MOST))]

    def factor(stretch: int) -> float:
        """The factor by which its number of points is above or below `USUAL`."""
        return max(batches / stretch / USUAL, USUAL * stretch / max(batches, 1))

    return suitable, min(suitable, key=factor)


def medians(losses: Iterable[tuple[int, float]], stretch: int) -> dict[int, float]:
    """(step, loss) → the median of each stretch by its number, from 0: that of steps 1 … `stretch` is number 0.

    A stretch with less than half of its rows is left out: its median would be noisier than the others.
    """
    by_stretch: dict[int, list[float]] = defaultdict(list)
    for step, loss in losses:
        by_stretch[(step - 1) // stretch].append(loss)
    return {number: median(part) for number, part in sorted(by_stretch.items()) if 2 * len(part) >= stretch}


def curve(seeds: Sequence[Sequence[tuple[int, float]]], stretch: int) -> Curve:
    """The curve of a contender's seeds, each (step, loss); where a seed lacks a stretch, it is computed without it."""
    runs = [medians(losses, stretch) for losses in seeds]
    numbers = sorted({number for run in runs for number in run})
    values = [[run[number] for run in runs if number in run] for number in numbers]
    return Curve(
        [number * stretch + (stretch + 1) / 2 for number in numbers],
        [fmean(losses_at) for losses_at in values],
        [min(losses_at) for losses_at in values],
        [max(losses_at) for losses_at in values],
    )


def band(rows: Sequence[Sequence[float | None]]) -> Curve:
    """The mean, lowest and highest over `rows` (one per seed) at each position, from 1, that has any."""
    positions = range(max((len(row) for row in rows), default=0))
    losses_by_position: dict[float, list[float]] = {}
    for index in positions:
        losses = [row[index] for row in rows if index < len(row)]
        known = [loss for loss in losses if loss is not None]
        if known:
            losses_by_position[index + 1.0] = known
    return Curve(
        list(losses_by_position),
        [fmean(losses) for losses in losses_by_position.values()],
        [min(losses) for losses in losses_by_position.values()],
        [max(losses) for losses in losses_by_position.values()],
    )
