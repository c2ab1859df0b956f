"""Smoothing: medians of a loss over stretches of batches that do not overlap, and the band between the seeds."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import final

STRETCHES = (1, 10, 50, 250, 1000, 5000, 25000, 100000)
"""batches that a median may be taken over"""
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


def stretches(batches: int) -> tuple[list[int], int]:
    """The stretches that suit a training of that many batches, and the one whose curve is nearest to 60 points."""
    suitable = [each for each in STRETCHES if 4 <= batches / each <= MOST] or [max(1, -(-batches // MOST))]
    return suitable, min(suitable, key=lambda each: max(batches / each / USUAL, USUAL * each / max(batches, 1)))


def medians(losses: Iterable[tuple[int, float]], stretch: int) -> dict[int, float]:
    """(step, loss) → the median of each stretch by its number, from 0: that of steps 1 … `stretch` is number 0.

    A stretch of which less than half is there is left out: its median would be noisier than the others.
    """
    parts: dict[int, list[float]] = defaultdict(list)
    for step, loss in losses:
        parts[(step - 1) // stretch].append(loss)
    return {number: median(part) for number, part in sorted(parts.items()) if 2 * len(part) >= stretch}


def curve(seeds: Sequence[Sequence[tuple[int, float]]], stretch: int) -> Curve:
    """The curve of a contender's seeds, each (step, loss); where a seed lacks a stretch, it is of the others."""
    found = [medians(losses, stretch) for losses in seeds]
    numbers = sorted({number for one in found for number in one})
    values = [[one[number] for one in found if number in one] for number in numbers]
    return Curve(
        [number * stretch + (stretch + 1) / 2 for number in numbers],
        [fmean(each) for each in values],
        [min(each) for each in values],
        [max(each) for each in values],
    )


def band(rows: Sequence[Sequence[float | None]]) -> Curve:
    """The mean, lowest and highest over `rows` (one per seed) at each position, from 1, that has any."""
    places = range(max((len(row) for row in rows), default=0))
    values = [[row[at] for row in rows if at < len(row)] for at in places]
    known = [(at + 1.0, [value for value in each if value is not None]) for at, each in enumerate(values)]
    kept = [(at, each) for at, each in known if each]
    return Curve(
        [at for at, _ in kept],
        [fmean(each) for _, each in kept],
        [min(each) for _, each in kept],
        [max(each) for _, each in kept],
    )
