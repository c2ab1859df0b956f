"""Medians over stretches and bands over seeds, against a plain loop."""

import random
from statistics import median

import pytest

from seqloom.report.medians import band, curve, every_stretch, medians, stretches


@pytest.mark.parametrize("stretch", [1, 7, 10, 50])
def test_medians_and_bands(stretch: int) -> None:
    draw = random.Random(1)
    seeds = [[(step, draw.random()) for step in range(1, 108)] for _ in range(3)]
    result = curve(seeds, stretch)
    at = 0
    for first in range(1, 108, stretch):
        parts = [[loss for step, loss in seed if first <= step < first + stretch] for seed in seeds]
        if 2 * len(parts[0]) < stretch:
            continue
        values = [median(part) for part in parts]
        assert result.batches[at] == first + (stretch - 1) / 2
        assert result.mean[at] == pytest.approx(sum(values) / 3)
        assert (result.low[at], result.high[at]) == (min(values), max(values))
        at += 1
    assert at == len(result.batches)


def test_a_seed_that_ended_early() -> None:
    result = curve([[(1, 2.0), (2, 4.0)], [(1, 3.0)]], 1)
    assert (result.mean, result.low, result.high) == ([2.5, 4.0], [2.0, 4.0], [3.0, 4.0])
    assert medians([(1, 1.0), (2, 3.0), (3, 9.0)], 6) == {0: 3.0}
    assert medians([(1, 1.0), (2, 3.0)], 6) == {}


@pytest.mark.parametrize(
    ("batches", "expected", "usual"),
    [(10, [1], 1), (300, [1, 10, 50], 10), (3000, [10, 50, 250], 50), (100_000, [250, 1000, 5000, 25000], 1000)],
)
def test_stretches(batches: int, expected: list[int], usual: int) -> None:
    assert stretches(batches) == (expected, usual)


def test_band_by_position() -> None:
    result = band([[1.0, 2.0, None], [3.0, None, None]])
    assert (result.batches, result.mean, result.low, result.high) == ([1, 2], [2, 2], [1, 2], [3, 2])


def test_every_loss_is_in_one_stretch() -> None:
    first, last = every_stretch([(1, 4.0), (2, 1.0), (3, 3.0), (4, 2.0), (5, 9.0)], 4)
    assert (first.middle, first.median, first.lowest, first.highest) == (2.5, 3.0, 1.0, 4.0)
    assert (last.middle, last.median, last.lowest, last.highest) == (5.0, 9.0, 9.0, 9.0)
    assert list(every_stretch([], 3)) == []
