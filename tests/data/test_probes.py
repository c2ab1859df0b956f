"""Probes: rows are a function of (settings, seed, step), and the answers are determined by the earlier tokens alone."""

import itertools
import re

import numpy as np
import pytest

from seqloom.data.probes import HELD_OUT, PROBES, Probe, probe
from seqloom.data.probes.draws import Draws
from tests.data.probe_solvers import SOLVERS

CROWDED = [
    ("mqar:pairs=8,length=24,keys=8,values=2", 1),
    ("selective-copying:count=16,words=2", 1),
    ("needle:needles=8,length=24", 1),
    ("lookup:before=1", 1),
]
COUNTED = ("parity", "permutations", "swaps")
"""probes in which every token so far matters"""
EVERY = [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in [*itertools.product(PROBES, (1, 3)), *CROWDED]]


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_rows_are_a_function_of_settings_seed_and_step(name: str, level: int) -> None:
    one, other = probe(name, level), probe(name, level)
    expected = [one.questions(7, step, 6) for step in range(4)]
    for step in (3, 0):
        actual = other.questions(7, step, 6)
        for part in ("tokens", "targets", "distance"):
            np.testing.assert_array_equal(getattr(actual, part), getattr(expected[step], part))
    twice = one.questions(7, 1, 12).tokens
    np.testing.assert_array_equal(twice, np.concatenate([expected[2].tokens, expected[3].tokens]))
    for changed in (one.questions(8, 0, 6), one.questions(7, HELD_OUT, 6), expected[1]):
        assert (changed.tokens != expected[0].tokens).any(axis=1).all()


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_the_oracle_reaches_the_optimum(name: str, level: int) -> None:
    task = probe(name, level)
    asked = task.questions(0, 0, 20)
    assert (
        asked.tokens.shape
        == asked.targets.shape
        == asked.distance.shape
        == asked.scored_positions.shape
        == (20, task.row_tokens)
    )
    assert 0 <= asked.tokens.min() <= asked.tokens.max() < task.vocab
    assert 0 <= asked.targets.min() <= asked.targets.max() < task.vocab
    assert (asked.targets[~asked.scored_positions] == 0).all()
    right = []
    for row in range(20):
        for before, position in enumerate(np.flatnonzero(asked.scored_positions[row])):
            answer = SOLVERS[task.name](task, asked.tokens[row, : position + 1], before)
            right.append(answer == asked.targets[row, position])
    assert np.mean(right) == task.optimum == 1.0


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_the_answer_is_at_the_distance(name: str, level: int) -> None:
    task = probe(name, level)
    asked = task.questions(0, 0, 50)
    rows, positions = np.nonzero(asked.scored_positions)
    distance = asked.distance[rows, positions]
    assert (distance >= 1).all()
    begin = positions if task.summary is None else np.full_like(positions, task.summary)  # from where one looks back
    source = asked.tokens[rows, begin - distance]
    if name in COUNTED:
        assert (begin == distance).all()  # the first bit
    else:
        np.testing.assert_array_equal(source, asked.targets[rows, positions])


@pytest.mark.parametrize("name", PROBES)
def test_a_model_that_does_not_look_back_is_at_chance(name: str) -> None:
    """The best table from (position, token) to an answer, learned on other rows, is no better than a guess."""
    task = probe(name, 1)
    learn, judge = task.questions(0, 0, 4000), task.questions(0, HELD_OUT, 4000)
    table = np.zeros((task.row_tokens, task.vocab, task.vocab), int)
    positions = np.broadcast_to(np.arange(task.row_tokens), learn.tokens.shape)
    np.add.at(
        table,
        (
            positions[learn.scored_positions],
            learn.tokens[learn.scored_positions],
            learn.targets[learn.scored_positions],
        ),
        1,
    )
    guesses = table[positions, judge.tokens].argmax(2)
    within(guesses[judge.scored_positions] == judge.targets[judge.scored_positions], task.chance)


@pytest.mark.parametrize("name", [name for name in PROBES if name not in COUNTED])
def test_no_other_position_holds_the_answer(name: str) -> None:
    """At any other position of a row its answer occurs as often as that of another row."""
    task = probe(name, 1)
    asked = task.questions(0, 0, 6000)
    rows, positions = np.nonzero(asked.scored_positions)
    source = (positions if task.summary is None else task.summary) - asked.distance[rows, positions]
    answers, foreign = asked.targets[rows, positions], np.roll(asked.targets[rows, positions], 7919)
    for position in range(task.row_tokens):
        there = source != position
        if not there.any():
            continue
        tokens = asked.tokens[rows[there], position]
        chance = max(np.mean(tokens == foreign[there]), 1e-3)
        within(tokens == answers[there], chance, sigmas=6)


def test_every_bit_of_parity_matters() -> None:
    asked = probe("parity", 2).questions(0, 0, 4000)
    for hidden in range(16):
        left = (asked.tokens.sum(1) - asked.tokens[:, hidden]) % 2
        within(left == asked.targets[:, -1], 0.5)


@pytest.mark.parametrize("name", PROBES)
def test_each_level_doubles_the_distance(name: str) -> None:
    furthest = []
    for level in (1, 2, 3, 4):
        asked = probe(name, level).questions(0, 0, 200)
        furthest.append(int(asked.distance.max()))
    for near, far in itertools.pairwise(furthest):
        assert 1.6 * near < far < 2.6 * near


def test_distances_are_spread() -> None:
    """Probes whose answers can be at any position ask over the whole range."""
    for name, most in (("mqar", 63), ("induction", 63), ("selective-copying", 63), ("needle", 62)):
        result = probe(name, 3).questions(0, 0, 2000).distance
        distances = result[result > 0]
        assert distances.min() <= 20, name
        assert distances.max() > 0.9 * most, name


@pytest.mark.parametrize(
    ("text", "level", "says"),
    [
        ("mqr", 1, "did you mean 'mqar'?"),
        ("mqar", 0, "1 … 15, not 0"),
        ("mqar", 16, "1 … 15, not 16"),
        ("mqar:", 1, None),
        ("mqar:pairs", 1, "NAME:SETTING=NUMBER"),
        ("mqar:pairs=-1", 1, "NAME:SETTING=NUMBER"),
        ("mqar:pairs=0", 1, "pairs: input should be greater than or equal to 1"),
        ("mqar:pair=3", 1, "did you mean 'pairs'?"),
        ("mqar:pairs=6", 1, "length of 18 or more"),
        ("mqar:pairs=32,length=96", 1, "32 pairs need as many keys, and there are 16"),
        ("mqar:values=1", 1, "values"),
        ("induction:length=2", 1, "length"),
        ("induction:words=1", 1, "words"),
        ("copying:count=0", 1, "count"),
        ("selective-copying:count=17", 1, "17 words need a length of 17 or more"),
        ("parity:length=1", 1, "length"),
        ("swaps:things=2", 1, "things"),
        ("parity:length=2097152", 1, "length"),
        ("compression:count=0", 1, "count"),
        ("needle:needles=9", 1, "9 needles need as many keys"),
        ("needle:length=8", 1, "length of 12 or more"),
    ],
)
def test_settings_that_do_not_fit_are_an_error_of_one_line(text: str, level: int, says: str | None) -> None:
    if says is None:
        assert probe(text, level) == probe(text.rstrip(":"), level)
        return
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        probe(text, level)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("step", "rows"), [(-1, 4), (0, 0)])
def test_batches_that_do_not_exist(step: int, rows: int) -> None:
    with pytest.raises(ValueError, match="step >= 0 and rows >= 1"):
        probe("parity").questions(0, step, rows)


@pytest.mark.parametrize(
    "text",
    [
        "mqar:pairs=1,length=3,keys=1,values=2",
        "induction:length=3",
        "copying:count=1",
        "selective-copying:count=1,length=1",
        "parity:length=2",
        "compression:count=1",
        "needle:needles=1,length=3,keys=1",
    ],
)
def test_the_smallest_settings(text: str) -> None:
    task: Probe = probe(text)
    asked = task.questions(0, 0, 30)
    assert (asked.scored_positions.sum(1) == 1).all()
    for row in range(30):
        position = int(np.flatnonzero(asked.scored_positions[row])[0])
        assert SOLVERS[task.name](task, asked.tokens[row, : position + 1], 0) == asked.targets[row, position]


def test_draws_are_fixed_for_ever() -> None:
    assert Draws("a", 0, 2).bits(3).tolist() == FIXED
    draws = Draws("a", 0, 2)
    assert draws.below(10, 5).tolist() == [[number % 10 for number in row] for row in Draws("a", 0, 2).bits(5).tolist()]
    assert draws.below(10, 5).tolist() != Draws("a", 0, 2).below(10, 5).tolist()


def test_different_draws_are_different_and_uniform() -> None:
    result = Draws("b", 0, 6000).draw_distinct(5, 3)
    assert all(len(set(row)) == 3 for row in result.tolist())
    orders = np.unique(result, axis=0, return_counts=True)[1]
    assert len(orders) == 60
    assert ((orders - 100) ** 2 / 100).sum() < 59 + 5 * np.sqrt(2 * 59)


def within(right: np.ndarray, chance: float, sigmas: float = 5) -> None:
    """Fails where so many right answers are not what `chance` gives, within the spread of independent trials."""
    spread = np.sqrt(chance * (1 - chance) / len(right))
    assert abs(right.mean() - chance) <= sigmas * spread, (right.mean(), chance, spread)


FIXED = [
    [5098827635240042589, 17307208474676743879, 10890103860744757265],
    [4191607563534628085, 12443888055103127622, 12801411901485380230],
]
