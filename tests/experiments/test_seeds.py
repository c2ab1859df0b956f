"""Means and intervals over seeds."""

import statistics

import pytest

from seqloom.experiments.seeds import T95, intervals, mean


def test_the_spread_is_shared_by_all() -> None:
    costs = {"a": [1.0, 3.0], "b": [5.0, 5.0], "c": [2.0, 2.0]}
    found = intervals(costs)
    spread = ((1 + 1 + 0 + 0 + 0 + 0) / 3) ** 0.5
    assert found == {name: pytest.approx(3.182 * spread / 2**0.5) for name in costs}


def test_of_one_contender_it_is_students() -> None:
    values = [1.0, 2.0, 4.0, 4.5]
    assert intervals({"a": values})["a"] == pytest.approx(3.182 * statistics.stdev(values) / 2)


def test_one_run_each_knows_no_spread() -> None:
    assert intervals({"a": [1.0], "b": [2.0]}) == {"a": None, "b": None}


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    import random

    numbers = random.Random(0)
    hits = 0
    for _ in range(2000):
        found = {name: [numbers.gauss(0, 1) for _ in range(2)] for name in "abcdef"}
        hits += abs(statistics.fmean(found["a"])) <= (intervals(found)["a"] or 0.0)
    assert 0.93 < hits / 2000 < 0.97


def test_t_falls_to_the_normal() -> None:
    assert list(T95) == sorted(T95, reverse=True)
    assert len(T95) == 30
    many = {str(n): [0.0, 2.0**0.5] for n in range(40)}
    assert intervals(many)["0"] == pytest.approx(1.96 / 2**0.5)


def test_means() -> None:
    assert mean([3, 3]) == 3
    assert isinstance(mean([3, 3]), int)
    assert mean([1.0, 2.0]) == 1.5
    assert mean([1.0, None]) is None
