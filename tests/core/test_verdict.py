"""Verdicts on pairs: Holm over pairs, folds that share training texts, equivalence, and what one run decides."""

import math
import random
from statistics import fmean, stdev

import pytest

from seqloom.core.statistics import quantile, tail
from seqloom.core.verdict import verdicts

FOLDS = 10
SHARE = 1 / 9
"""tested texts per training text with ten folds"""


def losses(differences: dict[str, list[float]]) -> dict[str, dict[int, float]]:
    """A baseline with noise that all models share, and models that differ from it by these numbers, run by run."""
    draw = random.Random(3)
    base = [2 + draw.gauss(0, 0.1) for _ in range(FOLDS)]
    models = {name: {run: base[run] + d for run, d in enumerate(ds)} for name, ds in differences.items()}
    return {"attention": dict(enumerate(base)), **models}


def verdict_of(ds: list[float], share: float = SHARE, margin: float = 0.01):
    return verdicts(losses({"he": ds}), {"he": ("he", "attention")}, margin=margin, share=share)["he"]


def test_the_error_of_folds_by_hand() -> None:
    ds = [-0.05, -0.04, -0.06, -0.03, -0.05, -0.07, -0.05, -0.04, -0.05, -0.06]
    estimate = verdict_of(ds).difference.estimate
    error = stdev(ds) * math.sqrt(1 / 10 + 1 / 9)
    assert estimate.mean == pytest.approx(fmean(ds))
    assert estimate.error == pytest.approx(error)
    assert estimate.half == pytest.approx(error * 2.2621571628540993)  # t of 9 degrees of freedom at 0.975
    assert verdict_of(ds).difference.adjusted == pytest.approx(2 * tail(-0.05 / error, 9))
    assert verdict_of(ds).words == "significant (p below 0.001)"


def test_a_difference_that_rests_on_one_run_is_fragile_and_names_it() -> None:
    ds = [-0.012, -0.001, -0.013, -0.011, -0.012, -0.012, -0.011, -0.013, -0.012, 0.006]
    verdict = verdict_of([d - 0.0014 for d in ds], share=0.0)
    assert verdict.is_significant
    assert verdict.needed == ()
    base = [-0.02, -0.02, -0.021, 0.0, 0.0, 0.001, -0.001, 0.0, 0.0, -0.02]
    verdict = verdict_of(base, share=0.0)
    assert verdict.is_significant
    assert verdict.needed
    assert "fragile" in verdict.words
    for run in range(FOLDS):  # by hand: the test without each run
        rest = [d for other, d in enumerate(base) if other != run]
        p = 2 * tail(-abs(fmean(rest)) / (stdev(rest) / 3), 8)
        assert (p >= 0.05) == (run in verdict.needed)


def test_equal_within_a_margin_is_two_one_sided_tests() -> None:
    ds = [0.001, -0.001, 0.002, -0.002, 0.0, 0.001, -0.001, 0.002, 0.0, -0.001]
    verdict = verdict_of(ds)
    reach = abs(fmean(ds)) + stdev(ds) * math.sqrt(1 / 10 + SHARE) * quantile(0.95, 9)
    assert reach < 0.01
    assert verdict.equal
    assert verdict.words == "equal within 0.01"
    assert not verdict_of(ds, margin=reach * 0.999).equal
    assert verdict_of(ds, margin=reach * 1.001).equal
    wide = [10 * d for d in ds]
    assert verdict_of(wide).words == "no clear difference"


def test_a_small_difference_may_be_significant_and_equal() -> None:
    ds = [0.004, 0.0041, 0.0039, 0.004, 0.0042, 0.0038, 0.004, 0.004, 0.0041, 0.0039]
    assert verdict_of(ds).words == "significant (p below 0.001), equal within 0.01"


def test_holm_is_over_the_pairs_that_have_runs() -> None:
    made = losses(
        {"a": [-0.01 - 0.001 * run for run in range(FOLDS)], "b": [0.004 * (-1) ** run for run in range(FOLDS)]}
    )
    pairs = {"a": ("a", "attention"), "b": ("b", "attention"), "c": ("c", "attention")}
    both = verdicts(made, pairs, margin=0.01)
    alone = verdicts(made, {"a": pairs["a"]}, margin=0.01)
    assert both.keys() == {"a", "b"}
    assert both["a"].difference.adjusted == pytest.approx(2 * alone["a"].difference.adjusted)


def test_one_run_and_two_runs_decide_nothing() -> None:
    made = losses({"he": [-0.5] * FOLDS})
    for runs, words in ((1, "one run"), (2, "2 runs, too few to test")):
        few = {name: {run: loss for run, loss in by_run.items() if run < runs} for name, by_run in made.items()}
        verdict = verdicts(few, {"he": ("he", "attention")}, margin=1.0)["he"]
        assert verdict.words == words
        assert not verdict.equal
        assert not verdict.is_significant


def test_without_a_true_difference_five_in_a_hundred_are_significant_at_most() -> None:
    """With folds that share nothing the corrected error is too large, never too small."""
    draw = random.Random(0)
    found = sum(verdict_of([draw.gauss(0, 1) for _ in range(FOLDS)]).is_significant for _ in range(400))
    plain = sum(verdict_of([draw.gauss(0, 1) for _ in range(FOLDS)], share=0.0).is_significant for _ in range(400))
    assert found < 12
    assert 8 <= plain <= 34
