"""Intervals, rules and verdicts on made-up costs (docs/making/paper)."""

import math
from pathlib import Path

import pytest

from docs.making.paper import rules
from docs.making.paper.claims import CLAIMS, OPEN
from docs.making.paper.rules import MANY, ONE
from docs.making.paper.spreads import ONE_SEED, Contrast, Spread, estimate, spread
from docs.making.paper.summary import Lent, lent_to
from docs.making.paper.verdicts import Rule, judge
from seqloom.experiments.paper.grid import Grid
from seqloom.experiments.paper.scales import scale_of
from seqloom.experiments.paper.studies import STUDIES
from tests.docs.made_up import Costs, plate

A_B = Contrast("a - b", {("a", None): 1, ("b", None): -1})
LENT = Spread(0.01)


def test_an_interval_by_hand(tmp_path: Path) -> None:
    """b, of deviation 1, has its own spread; a, of none, that of the median model, ½; Student's t is 4.303."""
    made = plate(tmp_path, {"a": [0.0, 0.0, 0.0], "b": [1.0, 2.0, 3.0]})
    found = estimate(A_B, made, "training", None)
    assert found is not None
    assert (found.mean, found.seeds) == (-2.0, 3)
    assert found.half == pytest.approx(4.303 * math.sqrt((1**2 + 0.5**2) / 3))
    assert found.word == "not settled"


def test_the_spread_of_each_model(tmp_path: Path) -> None:
    made = plate(tmp_path, {"a": [0.0, 0.0], "b": [1.0, 1.2], "she": [-0.3, 0.3]})
    found = spread(made, "training")
    assert found is not None
    assert found.own == pytest.approx({"a": 0, "b": 0.2 / math.sqrt(2), "she": 0.6 / math.sqrt(2)})
    assert found.of("a") == found.of("attention as she") == found.median == found.own["b"]
    for kind in ("she", "she, no positions", "she-groups=2"):
        assert found.of(kind) == found.own["she"]


def test_what_fails_fails_though_others_are_missing(tmp_path: Path) -> None:
    rule = rules.below(("a", "b"), ("c", "b"))
    assert judge(rule, plate(tmp_path, {"a": [1], "b": [0]}), "training", LENT).word == "does not hold"
    found = judge(rule, plate(tmp_path, {"a": [0], "b": [1]}), "training", LENT)
    assert (found.word, found.why, found.seeds) == ("not settled", "not all its models were run", 1)
    slopes = rules.every(rules.slope("she", ("she", 1)), rules.slope("both", ("she", 1), (MANY, -1)))
    made = plate(tmp_path, {("she", 1): [4.0], ("she", 2): [4.5]})
    found = judge(slopes, made, "training", LENT)
    assert (found.word, found.said) == ("does not hold", "she: +0.500 [0.042]")


def test_the_nearest_number_of_batches_lends(tmp_path: Path) -> None:
    one, other = Spread(0.01), Spread(0.02)
    lent: Lent = {("small", "training"): {1000: one, 10_000: other}}
    made = {batches: plate(tmp_path, {"a": [0]}, batches=batches) for batches in (500, 3000, 4000, 60_000)}
    found = {batches: lent_to(each, "training", lent) for batches, each in made.items()}
    assert found == {500: one, 3000: one, 4000: other, 60_000: other}
    assert lent_to(made[500], "held_out", lent) is None


def test_a_spread_is_of_finished_runs(tmp_path: Path) -> None:
    two = plate(tmp_path, {"a": [1.0, 1.2, None], "b": [2.0, 2.0, None], "c": [3.0, None, None]})
    found = spread(two, "training")
    assert found is not None
    assert found.own == pytest.approx({"a": 0.2 / math.sqrt(2), "b": 0})
    assert spread(plate(tmp_path, {"a": [1.0], "b": [2.0]}), "training") is None
    assert spread(plate(tmp_path, {"a": [1.0, 2.0]}), "training") == Spread(math.sqrt(0.5), {"a": math.sqrt(0.5)})


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
        ({"a": [0]}, LENT, "not settled", "not all its models were run"),
        ({"a": [0], "b": [0.0425]}, Spread(0.01, {"b": 0.012}), "not settled", "one seed"),
        ({"a": [0], "b": [0.0425]}, Spread(0.01, {"b": 0.005}), "holds", "one seed"),
        ({"a": [0, 0, 0], "b": [0.1, 0.2, 0.3], "c": [1, 1, 1]}, None, "not settled", "an interval has 0 in it"),
        ({"a": [0, 0, 0], "b": [0.2, 0.2, 0.2], "c": [1, 1.1, 1.2]}, None, "holds", ""),  # c's spread is not theirs
    ],
)
def test_verdicts(costs: Costs, lent: Spread | None, word: str, why: str, tmp_path: Path) -> None:
    assert ONE_SEED * LENT.median * math.sqrt(2) == pytest.approx(0.042426, abs=1e-6)
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
    (missing,) = rules.at_best(("a", "she"))(made)
    assert missing.weights == {("a", 0.5): 1, ("she", None): -1}


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
