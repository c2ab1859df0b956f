"""Rules and verdicts on invented losses."""

import math
from pathlib import Path

import pytest

from seqloom.core.statistics import contrast, holm
from seqloom_studies.paper import rules
from seqloom_studies.paper.claims import CLAIMS, OPEN
from seqloom_studies.paper.compared import Loss, call_series, losses
from seqloom_studies.paper.grid import Grid
from seqloom_studies.paper.page_rows import Study
from seqloom_studies.paper.rules import MANY, ONE
from seqloom_studies.paper.scales import scale_of
from seqloom_studies.paper.studies import STUDIES
from seqloom_studies.paper.verdicts import Rule, Verdict, evidence, judge_claims
from tests.studies.paper.made_up import Losses, plate


def judge(rule: Rule, made: Study, loss: Loss = "training") -> Verdict:
    """The verdict on a claim that is alone in its figure."""
    return judge_claims({"": rule}, made, loss)[""]


@pytest.mark.parametrize(
    ("losses", "word", "why"),
    [
        ({"a": [0, 0, 0], "b": [1.9, 2, 2.1]}, "holds", "adjusted p below 0.001"),
        ({"a": [1.9, 2, 2.1], "b": [0, 0, 0]}, "does not hold", "adjusted p below 0.001"),
        ({"a": [0, 0, 0], "b": [1, 2, 3]}, "undecided", "adjusted p 0.074"),
        ({"a": [0, 0], "b": [1.9, 2]}, "undecided", "a model has fewer than 3 seeds"),
        ({"a": [0], "b": [2]}, "one run", ""),
        ({"a": [2], "b": [0]}, "one run", ""),
        ({"a": [0, 0.1, 0], "b": [2, None, None]}, "one run", ""),
        ({"a": [0, 0, 0], "b": [2, 2, 2]}, "undecided", "seeds change nothing"),
        ({"a": [0], "b": [None]}, "undecided", "unfinished"),
        ({"a": [0]}, "undecided", "not all its models were run"),
        ({"a": [0, 0, 0], "b": [0.1, 0.2, 0.3], "c": [1, 1, 1]}, "undecided", "adjusted p 0.074"),
        ({"a": [0, 0, 0], "b": [0.19, 0.2, 0.21], "c": [1, 5, 9]}, "holds", "adjusted p below 0.001"),  # c is apart
    ],
)
def test_verdicts(losses: Losses, word: str, why: str, tmp_path: Path) -> None:
    made = plate(tmp_path, losses)
    result = judge(rules.below(("a", "b")), made)
    assert (result.word, result.why) == (word, why)
    assert ("±" in result.measured) == (why.startswith(("adjusted", "a model")))


def test_a_claim_of_several_differences(tmp_path: Path) -> None:
    low, middle, high = [0.0, 0.01, 0.02], [0.1, 0.11, 0.12], [0.3, 0.33, 0.29]
    made = plate(tmp_path, {"a": low, "b": middle, "c": high})
    runs = losses(made, "training")
    ps = {}
    for one, other in (("a", "b"), ("b", "c"), ("a", "c")):
        result = contrast({(one, None): 1, (other, None): -1}, runs)
        assert result is not None
        ps[one + other] = result.p
    both = evidence(rules.below(("a", "b"), ("b", "c"))(made), made, "training")
    assert (both.p, both.verdict.word) == (max(ps["ab"], ps["bc"]), "holds")
    one_above = evidence(rules.below(("a", "b"), ("c", "b"), ("c", "a"))(made), made, "training")
    assert (one_above.p, one_above.verdict.word) == (3 * min(ps["bc"], ps["ac"]), "does not hold")


def test_holm_over_the_claims_of_a_figure(tmp_path: Path) -> None:
    made = plate(tmp_path, {"a": [0, 0.1, 0.05], "b": [0.3, 0.22, 0.35], "c": [0.28, 0.2, 0.15], "d": [0, 0.1, 0.3]})
    pairs = [("a", "b"), ("a", "c"), ("d", "a"), ("a", "gone")]
    alone = [judge(rules.below(pair), made) for pair in pairs]
    assert [one.word for one in alone] == ["holds", "holds", "undecided", "undecided"]
    claims = {pair: rules.below(pair) for pair in pairs}
    together = judge_claims(claims, made, "training")
    ps = [p for rule in claims.values() if (p := evidence(rule(made), made, "training").p) is not None]
    assert len(ps) == 3
    assert together["a", "b"].why == f"adjusted p {holm(ps)[0]:.3f}"
    assert [one.word for one in together.values()] == ["holds", "undecided", "undecided", "undecided"]


def test_runs_are_paired_where_the_rows_are_marked_as_paired(tmp_path: Path) -> None:
    losses = {"a": [1.0, 2.0, 3.0], "b": [1.1, 2.11, 3.1]}
    apart = judge(rules.below(("a", "b")), plate(tmp_path, losses))
    paired = judge(rules.below(("a", "b")), plate(tmp_path, losses, paired=True))
    assert (apart.word, paired.word) == ("undecided", "holds")
    half = 4.302653 * math.sqrt(((0.1 - 0.31 / 3) ** 2 * 2 + (0.11 - 0.31 / 3) ** 2) / 2 / 3)
    assert paired.measured == f"a - b: {-0.31 / 3:+.3f} ± {half:.3f}"


def test_what_fails_fails_though_others_are_missing(tmp_path: Path) -> None:
    rule = rules.below(("a", "b"), ("c", "b"))
    result = judge(rule, plate(tmp_path, {"a": [1, 1.01, 1], "b": [0, 0.01, 0]}))
    assert result.word == "does not hold"
    result = judge(rule, plate(tmp_path, {"a": [0, 0.01, 0], "b": [1, 1.01, 1]}))
    assert (result.word, result.why, result.seeds) == ("undecided", "not all its models were run", 3)
    slopes = rules.every(rules.slope("she", ("she", 1)), rules.slope("both", ("she", 1), (MANY, -1)))
    made = plate(tmp_path, {("she", 1): [4.0], ("she", 2): [4.5]})
    result = judge(slopes, made)
    assert (result.word, result.why, result.measured) == ("one run", "not all its models were run", "she: +0.500")


def test_training_and_held_out_losses_are_judged_separately(tmp_path: Path) -> None:
    made = plate(tmp_path, {"a": [0, 0, 0], "b": [1.9, 2, 2.1]}, held_out={"a": [2, 2, 2], "b": [0, 0, 0.1]})
    assert [judge(rules.below(("a", "b")), made, loss).word for loss in ("training", "held_out")] == [
        "holds", "does not hold",
    ]  # fmt: skip


HEADS = {ONE: [4.3], "attention-heads=8": [4.2], MANY: [4.1]}
SWEEP = {("she", 8): [5.0], ("she", 32): [4.0], (MANY, 8): [5.1], (MANY, 32): [4.5]}


@pytest.mark.parametrize(
    ("rule", "losses", "word"),
    [
        (rules.highest(ONE), HEADS, "holds"),
        (rules.highest(ONE), HEADS | {ONE: [4.19]}, "undecided"),
        (rules.highest(ONE), HEADS | {ONE: [4.0]}, "does not hold"),
        (rules.lowest(MANY), HEADS, "holds"),
        (rules.lowest(MANY), HEADS | {MANY: [4.25]}, "does not hold"),
        (rules.close_to(("we", MANY)), HEADS | {"we": [4.2]}, "holds"),  # less than 0.2 more than 32 heads
        (rules.close_to(("we", MANY)), HEADS | {"we": [4.0]}, "holds"),
        (rules.close_to(("we", MANY)), HEADS | {"we": [4.4]}, "does not hold"),
        (rules.close_to(("we", MANY)), HEADS | {"we": [4.31]}, "undecided"),
        (rules.close_to(("me", ONE)), HEADS | {"me": [4.4]}, "holds"),
        (rules.close_to(("me", ONE)), HEADS | {"me": [4.6]}, "does not hold"),
        (rules.close_to(("me", ONE)), HEADS | {"me": [4.48]}, "undecided"),
        (rules.below(("she", MANY)), SWEEP, "holds"),
        (rules.below(("she", MANY)), SWEEP | {("she", 32): [4.6]}, "does not hold"),
        (rules.slope("gap", ("she", 1), (MANY, -1)), SWEEP, "holds"),
        (rules.slope("gap", ("she", 1), (MANY, -1)), SWEEP | {("she", 8): [4.6]}, "undecided"),
        (rules.slope("gap", ("she", 1), (MANY, -1)), SWEEP | {("she", 8): [4.0]}, "does not hold"),
        (rules.slope("all", ("", -1)), {("she", 1): [4.0], ("s", 2): [4.5], ("we", 4): [5.0]}, "holds"),
        (rules.slope("all", ("", -1)), {("she", 1): [5.0], ("s", 2): [4.5], ("we", 4): [4.0]}, "does not hold"),
        (rules.every(rules.lowest(MANY), rules.highest(ONE)), HEADS, "holds"),
    ],
)
def test_rules(rule: Rule, losses: Losses, word: str, tmp_path: Path) -> None:
    three = {key: [known - 0.01, known, known + 0.01] for key, (known,) in losses.items() if known is not None}
    assert judge(rule, plate(tmp_path, three, over="context")).word == word
    assert judge(rule, plate(tmp_path / "once", losses, over="context")).word == "one run"


def test_a_slope_by_hand(tmp_path: Path) -> None:
    made = plate(tmp_path, {("a", 1): [5.0], ("a", 2): [4.5], ("a", 8): [3.5]})
    (slope,) = rules.slope("a", ("a", 1))(made)
    result = contrast(slope.weights, losses(made, "training"))
    assert result is not None
    assert result.mean == pytest.approx(-0.5)


def test_each_at_its_best_by_training_loss(tmp_path: Path) -> None:
    losses = {("a", 0.5): [4.0], ("a", 1): [4.2], ("b", 0.5): [4.3], ("b", 1): [4.1], ("c", 1): [4.0]}
    made = plate(tmp_path, losses, over="rate")
    first, second = rules.at_best(("a", "b"), ("b", "c"))(made)
    assert first.weights == {("a", 0.5): 1, ("b", 1): -1}
    assert [first.name, second.name] == ["a at rate 0.5 - b at rate 1", "b at rate 1 - c at rate 1"]
    (missing,) = rules.at_best(("a", "she"))(made)
    assert missing.weights == {("a", 0.5): 1, ("she", None): -1}


def test_many_differences_are_summed_up(tmp_path: Path) -> None:
    heads = {f"attention-heads={n}": [4.0 + n / 100] for n in (2, 4, 8, 16)} | {ONE: [4.5]}
    result = judge(rules.highest(ONE), plate(tmp_path, heads))
    assert result.measured == "4 of 4 below 0; the least: 16 heads - 1 head: -0.340"


def test_names_of_verdicts() -> None:
    expected = {
        ONE: "1 head",
        "attention-heads=32, no positions": "32 heads, no positions",
        "attention as she": "attention as SHE",
        "he, extraction alone": "HE, extraction alone",
        "she-groups=2": "SHE-groups=2",
    }
    assert {series: call_series(series) for series in expected} == expected


@pytest.mark.slow
def test_claims_ask_for_lines_that_their_studies_have(tmp_path: Path) -> None:
    grid, known = Grid(scale_of("tiny"), tmp_path), {}
    for claim in (*CLAIMS, *OPEN):
        if claim.rule is None or claim.study == "equal-time":  # which trains to know its models
            continue
        if claim.study not in known:
            study = STUDIES[claim.study](grid)
            losses = {(line.series, line.x): [4.0] for line in study.lines}
            known[claim.study] = plate(tmp_path, losses, over=study.over)
        made = known[claim.study]
        if claim.text.startswith("ME") and claim.study == "equal-mul":  # no attention is as small as a tiny ME
            continue
        terms = {(line.series, line.x) for line in made.lines}
        for one in claim.rule(made):
            assert set(one.weights) <= terms
            assert sum(one.weights.values()) == pytest.approx(0)
