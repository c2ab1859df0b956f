"""Intervals, rules and verdicts on made-up costs (docs/making/paper)."""

import math
from pathlib import Path

import pytest

from docs.making.paper import rules
from docs.making.paper.claims import CLAIMS, OPEN
from docs.making.paper.rules import MANY, ONE
from docs.making.paper.spreads import ONE_SEED, Contrast, Spread, estimate, spread
from docs.making.paper.verdicts import Rule, judge
from seqloom.experiments.paper.grid import Grid
from seqloom.experiments.paper.scales import scale_of
from seqloom.experiments.paper.studies import STUDIES
from tests.docs.made_up import Costs, plate

A_B = Contrast("a - b", {("a", None): 1, ("b", None): -1})
LENT = Spread(0.01, 10)


def test_an_interval_by_hand(tmp_path: Path) -> None:
    """Of two models it is that of the paired differences: -1, -2, -3 have mean -2, deviation 1, t = 4.303."""
    made = plate(tmp_path, {"a": [0.0, 0.0, 0.0], "b": [1.0, 2.0, 3.0]})
    found, own = estimate(A_B, made, "training", None), spread(made, "training")
    assert found is not None
    assert own is not None
    assert (found.mean, found.seeds, own.freedom) == (-2.0, 3, 2)
    assert own.sigma == pytest.approx(math.sqrt(0.5))
    assert found.half == pytest.approx(4.303 / math.sqrt(3))
    assert found.word == "not settled"


def test_what_seeds_share_is_no_spread(tmp_path: Path) -> None:
    made = plate(tmp_path, {"a": [1.0, 5.0, 2.0], "b": [1.5, 5.5, 2.5], "c": [0.0, 4.0, 1.0]})
    found = spread(made, "training")
    assert found is not None
    assert found.sigma == pytest.approx(0, abs=1e-12)
    assert found.freedom == 4


def test_a_spread_is_of_finished_runs(tmp_path: Path) -> None:
    two = plate(tmp_path, {"a": [1.0, 1.2, None], "b": [2.0, 2.0, None], "c": [3.0, None, None]})
    found = spread(two, "training")
    assert found is not None
    assert found.freedom == 1
    assert found.sigma == pytest.approx(0.1)  # residuals ±0.05, four of them
    assert spread(plate(tmp_path, {"a": [1.0], "b": [2.0]}), "training") is None
    assert spread(plate(tmp_path, {"a": [1.0, 2.0]}), "training") is None


@pytest.mark.parametrize(
    ("costs", "lent", "word", "why"),
    [
        ({"a": [0, 0, 0], "b": [1.9, 2, 2.1]}, None, "holds", ""),
        ({"a": [1.9, 2, 2.1], "b": [0, 0, 0]}, None, "does not hold", ""),
        ({"a": [0, 0, 0], "b": [1, 2, 3]}, None, "not settled", "an interval has 0 in it"),
        ({"a": [0], "b": [2]}, None, "not settled", "one seed"),
        ({"a": [0], "b": [0.0425]}, LENT, "holds", "one seed"),
        ({"a": [0], "b": [0.0424]}, LENT, "not settled", "one seed"),
        ({"a": [0.0425], "b": [0]}, LENT, "does not hold", "one seed"),
        ({"a": [0], "b": [None]}, LENT, "not settled", "unfinished"),
        ({"a": [0, 0], "b": [2, None]}, LENT, "holds", "one seed"),
        ({"a": [0]}, LENT, "not settled", "the study has no such model"),
    ],
)
def test_verdicts(costs: Costs, lent: Spread | None, word: str, why: str, tmp_path: Path) -> None:
    assert ONE_SEED * LENT.sigma * math.sqrt(2) == pytest.approx(0.042426, abs=1e-6)
    found = judge(rules.below(("a", "b")), plate(tmp_path, costs), "training", lent)
    assert (found.word, found.why) == (word, why)


def test_costs_are_judged_apart(tmp_path: Path) -> None:
    made = plate(tmp_path, {"a": [0, 0, 0], "b": [1.9, 2, 2.1]}, held_out={"a": [2, 2, 2], "b": [0, 0, 0.1]})
    assert [judge(rules.below(("a", "b")), made, column, None).word for column in ("training", "held_out")] == [
        "holds", "does not hold",
    ]  # fmt: skip


HEADS = {ONE: [4.3], "attention-heads=8": [4.2], MANY: [4.1]}
SWEEP = {("she", 8): [5.0], ("she", 32): [4.0], (MANY, 8): [5.1], (MANY, 32): [4.5]}


@pytest.mark.parametrize(
    ("rule", "costs", "word"),
    [
        (rules.highest(ONE), HEADS, "holds"),
        (rules.highest(ONE), HEADS | {ONE: [4.19]}, "not settled"),
        (rules.highest(ONE), HEADS | {ONE: [4.0]}, "does not hold"),
        (rules.lowest(MANY), HEADS, "holds"),
        (rules.lowest(MANY), HEADS | {MANY: [4.25]}, "does not hold"),
        (rules.near(("we", MANY)), HEADS | {"we": [4.2]}, "holds"),  # less than 0.2 more than 32 heads
        (rules.near(("we", MANY)), HEADS | {"we": [4.0]}, "holds"),
        (rules.near(("we", MANY)), HEADS | {"we": [4.4]}, "does not hold"),
        (rules.near(("we", MANY)), HEADS | {"we": [4.31]}, "not settled"),
        (rules.near(("me", ONE)), HEADS | {"me": [4.4]}, "holds"),
        (rules.near(("me", ONE)), HEADS | {"me": [4.6]}, "does not hold"),
        (rules.near(("me", ONE)), HEADS | {"me": [4.43]}, "not settled"),  # 0.07 of 3 · 0.01 · √6
        (rules.below(("she", MANY)), SWEEP, "holds"),
        (rules.below(("she", MANY)), SWEEP | {("she", 32): [4.6]}, "does not hold"),
        (rules.slope("gap", ("she", 1), (MANY, -1)), SWEEP, "holds"),
        (rules.slope("gap", ("she", 1), (MANY, -1)), SWEEP | {("she", 8): [4.6]}, "not settled"),
        (rules.slope("gap", ("she", 1), (MANY, -1)), SWEEP | {("she", 8): [4.0]}, "does not hold"),
        (rules.slope("all", ("", -1)), {("she", 1): [4.0], ("s", 2): [4.5], ("we", 4): [5.0]}, "holds"),
        (rules.slope("all", ("", -1)), {("she", 1): [5.0], ("s", 2): [4.5], ("we", 4): [4.0]}, "does not hold"),
        (rules.every(rules.lowest(MANY), rules.highest(ONE)), HEADS, "holds"),
    ],
)
def test_rules(rule: Rule, costs: Costs, word: str, tmp_path: Path) -> None:
    assert judge(rule, plate(tmp_path, costs, over="context"), "training", LENT).word == word


def test_a_slope_by_hand(tmp_path: Path) -> None:
    made = plate(tmp_path, {("a", 1): [5.0], ("a", 2): [4.5], ("a", 8): [3.5]})
    (contrast,) = rules.slope("a", ("a", 1))(made)
    found = estimate(contrast, made, "training", None)
    assert found is not None
    assert found.mean == pytest.approx(-0.5)


def test_each_at_its_best_by_training_cost(tmp_path: Path) -> None:
    costs = {("a", 0.5): [4.0], ("a", 1): [4.2], ("b", 0.5): [4.3], ("b", 1): [4.1], ("c", 1): [4.0]}
    made = plate(tmp_path, costs, over="rate")
    first, second = rules.at_best(("a", "b"), ("b", "c"))(made)
    assert first.weights == {("a", 0.5): 1, ("b", 1): -1}
    assert [first.name, second.name] == ["a at rate 0.5 - b at rate 1", "b at rate 1 - c at rate 1"]
    with pytest.raises(LookupError):
        rules.at_best(("a", "she"))(made)


def test_many_differences_are_summed_up(tmp_path: Path) -> None:
    heads = {f"attention-heads={n}": [4.0 + n / 100] for n in (2, 4, 8, 16)} | {ONE: [4.5]}
    found = judge(rules.highest(ONE), plate(tmp_path, heads), "training", LENT)
    assert found.said == "4 of 4 so; the least: 16 heads - 1 head: -0.340 [0.042]"


def test_names() -> None:
    wanted = {
        ONE: "1 head",
        "attention-heads=32, no positions": "32 heads, no positions",
        "attention as she": "attention as SHE",
        "he, extraction alone": "HE, extraction alone",
        "she-groups=2": "SHE-groups=2",
    }
    assert {series: rules.name(series) for series in wanted} == wanted


def test_claims_ask_for_lines_that_their_studies_have(tmp_path: Path) -> None:
    grid, known = Grid(scale_of("tiny"), tmp_path), {}
    for claim in (*CLAIMS, *OPEN):
        if claim.rule is None or claim.study == "equal-time":  # which trains to know its models
            continue
        if claim.study not in known:
            study = STUDIES[claim.study](grid)
            costs = {(line.series, line.x): [4.0] for line in study.lines}
            known[claim.study] = plate(tmp_path, costs, over=study.over)
        made = known[claim.study]
        if claim.says.startswith("ME") and claim.study == "equal-mul":  # no attention is as small as a tiny ME
            continue
        terms = {(line.series, line.x) for line in made.lines}
        for contrast in claim.rule(made):
            assert set(contrast.weights) <= terms
            assert sum(contrast.weights.values()) == pytest.approx(0)
