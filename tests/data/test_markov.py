"""Markov chains: the entropy rate by hand, by stationarity and by simulation; the text; wrong names."""

import math
from itertools import pairwise

import numpy as np
import pytest

from seqloom.data.corpora import read
from seqloom.data.markov import Chain, chain


def entropy(*weights: float) -> float:
    return -sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights)


def test_two_states_have_the_rate_that_a_hand_works_out() -> None:
    # a stays with 9/10, b with 3/4: π_a · 1/10 = π_b · 1/4, so π = (5/7, 2/7)
    two = Chain(0, 1, ((9, 1), (1, 3)))
    np.testing.assert_allclose(two.stationary, [5 / 7, 2 / 7], atol=1e-13)
    assert two.entropy_rate == pytest.approx(5 / 7 * entropy(9, 1) + 2 / 7 * entropy(1, 3), abs=1e-13)


def test_order_zero_has_the_entropy_of_its_letter() -> None:
    assert Chain(0, 0, ((1, 2, 5),)).entropy_rate == pytest.approx(entropy(1, 2, 5), abs=1e-15)


def test_the_stationary_vector_solves_the_chain_written_as_a_matrix() -> None:
    three = chain(3, 2, 5)
    matrix = np.zeros((9, 9))
    for c in range(9):
        for s in range(3):
            matrix[c, c * 3 % 9 + s] = three.weights[c][s] / sum(three.weights[c])
    system = np.vstack([matrix.T - np.eye(9), np.ones(9)])
    solved = np.linalg.lstsq(system, np.r_[np.zeros(9), 1], rcond=None)[0]
    np.testing.assert_allclose(three.stationary, solved, atol=1e-12)
    assert three.entropy_rate == pytest.approx(sum(solved[c] * entropy(*three.weights[c]) for c in range(9)), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("variable", [False, True])
def test_the_loss_of_the_true_chain_on_its_text_is_the_rate(variable: bool) -> None:
    source = chain(4, 3, 1, variable=variable)
    losses = [-source.log_probability(text) / (len(text) - 3) for text in source.documents(60)]
    error = np.std(losses) / math.sqrt(len(losses))
    assert abs(np.mean(losses) - source.entropy_rate) < 4 * error < 0.02


@pytest.mark.slow
def test_the_counts_of_a_text_are_those_of_the_rows() -> None:
    source = chain(3, 1, 2)
    counts = np.zeros((3, 3))
    for text in source.documents(60):
        for before, after in pairwise(text):
            counts["abc".index(before), "abc".index(after)] += 1
    np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), source.probabilities, atol=0.015)


def test_with_variable_order_some_contexts_share_a_row_and_one_needs_all() -> None:
    fixed, variable = chain(3, 4, 0), chain(3, 4, 0, variable=True)
    assert len(set(fixed.weights)) == 81
    assert 3 < len(set(variable.weights)) < 81
    assert len({variable.weights[c * 27] for c in range(3)}) == 3, "?aaa"


def test_a_document_is_a_function_of_seed_and_number() -> None:
    few, many = list(chain(3, 2, 7).documents(2)), list(chain(3, 2, 7).documents(4))
    assert many[:2] == few
    assert len(set(many)) == 4
    assert list(chain(3, 2, 8).documents(1)) != few[:1]


@pytest.mark.slow
def test_the_corpus_has_a_name() -> None:
    texts = [document.text for document in read("markov:3:2:7")]
    assert len(texts) == 1000
    assert texts[:2] == list(chain(3, 2, 7).documents(2))
    assert next(iter(read("markov:3:4:7:variable"))).text == next(chain(3, 4, 7, variable=True).documents(1))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("markov", "markov:STATES:ORDER:SEED"),
        ("markov:3:2", "markov:STATES:ORDER:SEED"),
        ("markov:3:2:0:fixed", "markov:STATES:ORDER:SEED"),
        ("markov:3:-2:0", "markov:STATES:ORDER:SEED"),
        ("markov:1:2:0", "states of a Markov chain"),
        ("markov:27:2:0", "states of a Markov chain"),
        ("markov:2:17:0", "order of a Markov chain"),
        ("markov:26:4:0", "456,976 contexts"),
        ("markov:2:1:4294967296", "a seed must be"),
        ("hmm:3:2", "hmm:STATES:SYMBOLS:SEED"),
        ("hmm:3:2:0:variable", "hmm:STATES:SYMBOLS:SEED"),
        ("hmm:1:2:0", "states of a hidden Markov chain"),
        ("hmm:65:2:0", "states of a hidden Markov chain"),
        ("hmm:3:27:0", "symbols of a hidden Markov chain"),
    ],
)
def test_a_wrong_name_is_an_error_in_one_line(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        read(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["ab", "abz", "", 3])
def test_a_text_that_the_chain_cannot_judge_is_an_error(text) -> None:
    with pytest.raises(ValueError, match="chain"):
        chain(3, 2, 0).log_probability(text)
