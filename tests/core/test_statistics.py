"""Intervals, differences and Holm's correction: by hand, against scipy.stats, and by their coverage."""

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.core.statistics import (
    LEVEL,
    Difference,
    Estimate,
    Runs,
    contrast,
    differences,
    holm,
    mean,
    mean_of,
    quantile,
    smallest_significant,
)


def seeds(*losses: float) -> Runs:
    return dict(enumerate(losses))


def test_students_interval_of_a_models_own_runs() -> None:
    result = mean_of([1.0, 2.0, 4.0, 4.5])
    assert (result.mean, result.seeds, result.freedom) == (2.875, 4, 3)
    assert result.half == pytest.approx(3.182446 * statistics.stdev([1.0, 2.0, 4.0, 4.5]) / 2)


def test_one_run_and_equal_runs_have_no_error() -> None:
    assert mean_of([2.0]) == Estimate(2.0, 1)
    assert mean_of([0.25]) == Estimate(0.25, 1)
    assert mean_of([2.0, 2.0, 2.0]) == Estimate(2.0, 3)


def test_an_estimate_as_text() -> None:
    known, unknown = Estimate(1.25, 4, 0.5, 3), Estimate(-1.25, 1)
    assert (str(known), known.signed_text) == ("1.250 ± 1.591", "+1.250 ± 1.591")  # 3.182446 / 2
    assert (str(unknown), unknown.signed_text) == ("-1.250", "-1.250")


def test_quantiles_of_any_degrees_of_freedom() -> None:
    assert [round(quantile(0.975, nu), 3) for nu in (1, 2, 2.5, 30, 31, 1000)] == [
        12.706, 4.303, 3.575, 2.042, 2.040, 1.962,
    ]  # fmt: skip


def test_welchs_difference_by_hand() -> None:
    result = contrast({"a": 1, "b": -1}, {"a": seeds(1.0, 2.0, 3.0), "b": seeds(5.0, 5.0, 8.0, 6.0)})
    assert result is not None
    a, b = 1 / 3, 2 / 4  # s² / n of each
    assert result.mean == -4
    assert result.seeds == 3
    assert result.error == pytest.approx(math.sqrt(a + b))
    assert result.freedom == pytest.approx((a + b) ** 2 / (a**2 / 2 + b**2 / 3))
    assert result.p == pytest.approx(0.0071426730091109746)  # of scipy.stats.ttest_ind(a, b, equal_var=False)


def test_pairs_by_hand() -> None:
    runs = {"a": {0: 1.0, 1: 2.0, 2: 4.0, 7: 9.0}, "b": {2: 3.5, 1: 1.0, 0: 0.5, 8: 1.0}}
    result = contrast({"a": 1, "b": -1}, runs, paired=True)
    assert result is not None
    assert (result.mean, result.seeds, result.freedom) == (pytest.approx(2 / 3), 3, 2)
    assert result.error == pytest.approx(statistics.stdev([0.5, 1.0, 0.5]) / math.sqrt(3))
    apart = contrast({"a": 1, "b": -1}, runs)
    assert apart is not None
    assert apart.seeds == 4
    assert contrast({"a": 1, "b": -1}, {"a": {0: 1.0}, "b": {1: 1.0}}, paired=True) is None


def test_weights_and_models_of_weight_0() -> None:
    runs = {"a": seeds(1.0, 3.0), "b": seeds(0.0, 1.0)}
    result = contrast({"a": 0.5, "b": 2, "c": 0}, runs)
    assert result is not None
    assert result.mean == 2
    assert result.error == pytest.approx(math.sqrt(0.5**2 * 2 / 2 + 2**2 * 0.5 / 2))
    assert contrast({"a": 1, "c": -1}, runs) is None


@pytest.mark.parametrize(
    ("a", "b", "half", "tested"),
    [
        ([1.0], [2.0], False, False),
        ([1.0], [2.0, 2.1, 2.2], False, False),  # one seed of either
        ([1.0, 1.1], [2.0, 2.1, 2.2], True, False),  # an interval, but too few to be significant
        ([1.0, 1.1, 1.0], [2.0, 2.1, 2.2], True, True),
        ([1.0, 1.0, 1.0], [2.0, 2.1, 2.2], True, True),
        ([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], False, False),  # seeds change nothing: no spread is known
        ([0.1 + 0.2, 0.3, 0.3], [0.7, 0.7, 0.7], False, False),  # nothing but rounding
    ],
)
def test_when_an_interval_and_a_p_exist(a: list[float], b: list[float], half: bool, tested: bool) -> None:
    result = contrast({"a": 1, "b": -1}, {"a": seeds(*a), "b": seeds(*b)})
    assert result is not None
    assert (result.half is not None, result.p is not None) == (half, tested)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == [pytest.approx(p) for p in (0.03, 0.06, 0.06, 0.02)]
    assert holm([0.4, 0.9]) == [0.8, 0.9]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


TABLE = {"base": seeds(4.0, 4.02, 4.01), "low": seeds(3.5, 3.52, 3.49), "wide": seeds(4.5, 3.9, 4.2)}
TABLE |= {"high": seeds(4.61, 4.6, 4.62), "two": seeds(1.0, 1.1), "once": seeds(9.0), "none": {}}


def test_a_table() -> None:
    result = differences(TABLE, dict.fromkeys(TABLE, "base"))
    words = {
        "low": "lower",
        "wide": "no clear difference",
        "high": "higher",
        "two": "no clear difference",
        "once": "one run",
    }
    assert {name: one.word for name, one in result.items()} == words
    ps = [p for one in result.values() if (p := one.estimate.p) is not None]
    assert [one.adjusted for one in result.values() if one.adjusted is not None] == holm(ps)
    assert result["two"].adjusted is result["once"].adjusted is result["once"].smallest is None


def test_the_sentence_under_a_table() -> None:
    result = differences(TABLE, dict.fromkeys(TABLE, "base"))
    assert smallest_significant({name: one.smallest for name, one in result.items()}, "base", 3) == (
        f"The smallest difference to base that would have been significant: {result['high'].smallest:.3f} (high) to "
        f"{result['wide'].smallest:.3f} (wide)."
    )
    assert smallest_significant({"b": None}, "a", 1) == "No difference to a can be called significant: one run of each."
    assert smallest_significant({"b": None}, "a", 2).endswith("significant: that takes at least 3 seeds that differ.")
    assert smallest_significant({"b": 0.25, "c": None}, "a", 3).endswith("been significant: 0.250 (b).")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.05, 2)), min_size=2, max_size=6), st.integers(0, 999))
def test_a_difference_is_significant_exactly_beyond_the_smallest(models: list[tuple[float, float]], seed: int) -> None:
    draw = random.Random(seed)
    runs = {at: seeds(*(draw.gauss(mean, wide) for _ in range(4))) for at, (mean, wide) in enumerate(models)}
    for one in differences(runs, dict.fromkeys(runs, 0)).values():
        assert one.smallest is not None
        assert (one.word != "no clear difference") == (abs(one.estimate.mean) > one.smallest)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "wide"), [(3, 3), (3, 0)])
def test_coverage_and_false_claims_of_2000_tables(count: int, wide: int) -> None:
    """Six contenders of one true loss, of which one varies five times as much; contender 0 is the baseline."""
    spread = np.where(np.arange(6) == wide, 0.05, 0.01)
    tables = 4.0 + spread[:, None] * np.random.default_rng(16).standard_normal((2000, 6, count))
    covered, apart, false = np.zeros(6), np.zeros(6), 0
    for drawn in tables.tolist():
        for at, losses in enumerate(drawn):
            own = mean_of(losses)
            covered[at] += abs(own.mean - 4) <= (own.half or 0)
        result = differences({at: seeds(*losses) for at, losses in enumerate(drawn)}, dict.fromkeys(range(6), 0))
        for at, one in result.items():
            apart[at] += abs(one.estimate.mean) <= (one.estimate.half or 0)
        false += any(one.word != "no clear difference" for one in result.values())
    assert ((covered / 2000 > 0.93) & (covered / 2000 < 0.97)).all(), covered
    assert (apart[1:] / 2000 > 0.93).all(), apart  # Welch's approximation errs to the safe side at 3 seeds
    assert false / 2000 <= 0.06


def test_means() -> None:
    assert mean([3, 3]) == 3
    assert isinstance(mean([3, 3]), int)
    assert mean([3]) == 3
    assert mean([1.0, 2.0]) == 1.5
    assert mean([1.0, None]) is None


def test_rounding_is_measured_by_the_size_of_what_is_compared() -> None:
    assert mean_of([1e-20, 2e-20, 3e-20]).error == pytest.approx(1e-20 / math.sqrt(3))
    assert mean_of([1e-20, 2e-20, 3e-20], scale=1.0).error is None


def test_a_p_equal_to_the_level_is_not_significant() -> None:
    low = Estimate(-1.0, 3, 0.1, 2)
    assert [Difference(low, p, None).word for p in (LEVEL, LEVEL * 0.999)] == ["no clear difference", "lower"]
