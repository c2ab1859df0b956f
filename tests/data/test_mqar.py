"""The rows of MQAR: which ids are keys and values, that all of them are used alike, and where they are asked for."""

import numpy as np
import pytest

from seqloom.data.probes import probe
from seqloom.data.probes.probe import Questions
from tests.data.test_probes import within

PAIRS, LENGTH, KEYS, VALUES = 3, 14, 5, 4
END = 2 * PAIRS
"""of the pairs"""


@pytest.fixture(scope="module")
def rows() -> Questions:
    """Of numbers of keys and values that differ."""
    return probe(f"mqar:pairs={PAIRS},length={LENGTH},keys={KEYS},values={VALUES}").questions(3, 0, 4000)


def test_keys_come_before_values_and_0_is_neither(rows: Questions) -> None:
    keys, values, questions = rows.tokens[:, 0:END:2], rows.tokens[:, 1:END:2], rows.tokens[:, END:]
    assert {*np.unique(keys)} == {*range(1, 1 + KEYS)}
    assert {*np.unique(values)} == {*range(1 + KEYS, 1 + KEYS + VALUES)}
    assert {*np.unique(questions)} == {*range(1 + KEYS)}
    assert probe(f"mqar:pairs={PAIRS},length={LENGTH},keys={KEYS},values={VALUES}").vocab == 1 + KEYS + VALUES


def test_every_key_of_a_row_is_asked_for_once(rows: Questions) -> None:
    for tokens, targets in zip(rows.tokens.tolist(), rows.targets.tolist(), strict=True):
        value_of = dict(zip(tokens[0:END:2], tokens[1:END:2], strict=True))
        assert len(value_of) == PAIRS
        asked = {token: target for token, target in zip(tokens[END:], targets[END:], strict=True) if token}
        assert asked == value_of
        assert sum(token > 0 for token in tokens[END:]) == PAIRS
        assert not any(targets[:END])


@pytest.mark.parametrize("place", range(PAIRS))
def test_all_keys_and_values_are_equally_likely_and_independent(rows: Questions, place: int) -> None:
    keys, values = rows.tokens[:, 2 * place], rows.tokens[:, 2 * place + 1]
    for key in range(1, 1 + KEYS):
        within(keys == key, 1 / KEYS)
        for value in range(1 + KEYS, 1 + KEYS + VALUES):
            within((keys == key) & (values == value), 1 / KEYS / VALUES)
    for value in range(1 + KEYS, 1 + KEYS + VALUES):
        within(values == value, 1 / VALUES)
    within(rows.tokens[:, 1] == rows.tokens[:, 3], 1 / VALUES)  # values of a row may be the same


def test_questions_are_anywhere_after_the_pairs(rows: Questions) -> None:
    for position in range(END, LENGTH):
        within(rows.tokens[:, position] > 0, PAIRS / (LENGTH - END))
        within(rows.tokens[:, position] == rows.tokens[:, 0], 1 / (LENGTH - END))


@pytest.mark.parametrize(("level", "pairs"), [(1, 4), (2, 8), (3, 16)])
def test_the_levels(level: int, pairs: int) -> None:
    task = probe("mqar", level)
    assert task == probe(f"mqar:pairs={pairs},length={4 * pairs},keys={4 * pairs},values={4 * pairs}", 1)
    assert task.chance == 1 / (4 * pairs)
