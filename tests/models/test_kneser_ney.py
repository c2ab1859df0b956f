"""Kneser-Ney against Chen and Goodman's equations, by hand and with fractions; sums; ARPA; wrong input."""

from collections import Counter
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest

from seqloom.models.ngram.kneser_ney import FALLBACK, KneserNey, discounts, kneser_ney
from tests.conftest import SHAPES


def text(length: int = 400, vocab: int = 6, seed: int = 0) -> np.ndarray:
    draws = np.random.default_rng(seed).geometric(0.35, length) - 1
    return np.minimum(draws, vocab - 1)


def test_a_bigram_worked_by_hand() -> None:
    # a b a a over {a, b, c}; bigrams <s>a, ab, ba, aa once: a follows 3 tokens, b one; D = 0.5, 1, 1.5 (no n_2)
    # p_1: γ = (1.5 + 0.5)/4 = 1/2; a: 1.5/4 + 1/6 = 13/24, b: 0.5/4 + 1/6 = 7/24, c: 1/6
    # p_2 after a (a and b, once each): γ = (0.5 + 0.5)/2; a: 0.5/2 + 13/48 = 25/48, b: 1/4 + 7/48 = 19/48, c: 1/12
    model = kneser_ney(np.array([0, 1, 0, 0]), 2, 3)
    np.testing.assert_allclose(model.orders[0].probabilities, [13 / 24, 7 / 24, 1 / 6, 0], atol=1e-15)
    after_a = [np.exp(model.log_probabilities(np.array([0, w]))[1]) for w in range(3)]
    np.testing.assert_allclose(after_a, [25 / 48, 19 / 48, 1 / 12], atol=1e-15)


def test_discounts_worked_by_hand() -> None:
    # n = 4, 2, 1, 1: Y = 1/2, D_1 = 1 - 1/2, D_2 = 2 - 3/4, D_3 = 3 - 2
    assert discounts(np.array([0, 1, 1, 1, 1, 2, 2, 3, 4, 9])) == (0.5, 1.25, 1.0)
    assert discounts(np.array([1, 1, 2])) == FALLBACK
    assert discounts(np.array([1, 1, 1, 1, 2, 3])) == FALLBACK, "D_2 = 2 - 3 · 2/3 would be 0"


def test_no_discount_of_0_leaves_a_token_without_probability() -> None:
    worst = [kneser_ney(text(length=30, seed=seed), 3, 6).log_probabilities(np.arange(6)).min() for seed in range(300)]
    assert np.isfinite(worst).all()


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_every_probability_is_that_of_the_equations_in_fractions(order: int) -> None:
    ids, vocab = text(), 6
    model = kneser_ney(ids, order, vocab)
    padded = (vocab,) * (order - 1) + tuple(ids.tolist())
    windows = Counter(padded[i - order + 1 : i + 1] for i in range(order - 1, len(padded)))
    tables = [windows]
    for _ in range(order - 1):
        tables.insert(0, Counter(gram[1:] for gram in tables[0]))

    def p(context: tuple[int, ...], w: int) -> Fraction:
        steps = [Fraction(0), *map(Fraction, model.orders[len(context)].discounts)]
        counts = {gram[-1]: n for gram, n in tables[len(context)].items() if gram[:-1] == context}
        lower = p(context[1:], w) if context else Fraction(1, vocab)
        if not (total := sum(counts.values())):
            return lower
        gamma = sum(steps[min(n, 3)] for n in counts.values()) / total
        n = counts.get(w, 0)
        return (n - steps[min(n, 3)]) / total + gamma * lower

    probe = text(40, seed=1)
    whole = (vocab,) * (order - 1) + tuple(probe.tolist())
    expected = [float(p(whole[i : i + order - 1], int(w))) for i, w in enumerate(probe)]
    np.testing.assert_allclose(np.exp(model.log_probabilities(probe)), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 3, 8])
def test_probabilities_sum_to_one_after_seen_and_unseen_contexts(order: int) -> None:
    model = kneser_ney(text(), order, 9)
    for seed in range(5):
        context = np.random.default_rng(seed).integers(0, 9, 7)
        after = [np.exp(model.log_probabilities(np.append(context, w))[-1]) for w in range(9)]
        assert sum(after) == pytest.approx(1, abs=1e-12)


def read_arpa(lines: list[str]) -> dict[tuple[str, ...], tuple[float, float]]:
    rows = [line.split("\t") for line in lines if "\t" in line]
    return {tuple(row[1].split(" ")): (float(row[0]), float(row[2]) if len(row) > 2 else 0.0) for row in rows}


def lines(model: KneserNey) -> list[str]:
    return "\n".join(model.arpa([f"w{i}" for i in range(model.vocab)])).split("\n")


def test_an_arpa_file_read_with_backing_off_gives_the_same_log10() -> None:
    model, probe = kneser_ney(text(), 4, 6), text(60, seed=2)
    table = read_arpa(written := lines(model))
    assert [f"ngram {m}={sum(len(gram) == m for gram in table)}" for m in range(1, 5)] == written[1:5]

    def score(gram: tuple[str, ...]) -> float:
        return table[gram][0] if gram in table else table.get(gram[:-1], (0, 0.0))[1] + score(gram[1:])

    words = tuple(f"w{i}" for i in probe)
    backed = [score(words[max(i - 3, 0) : i + 1]) for i in range(len(words))]
    np.testing.assert_allclose(model.log_probabilities(probe, begin=False) / np.log(10), backed, atol=1e-7)


@pytest.mark.skipif(find_spec("kenlm") is None, reason="kenlm is not installed: pip install 'seqloom[kenlm]'")
def test_kenlm_reads_the_arpa_file_and_agrees(tmp_path) -> None:
    import kenlm

    model, probe = kneser_ney(text(), 4, 6), text(60, seed=2)
    (tmp_path / "a.arpa").write_text("\n".join(lines(model)) + "\n")
    scores = kenlm.Model(str(tmp_path / "a.arpa")).full_scores(" ".join(f"w{i}" for i in probe), bos=False, eos=False)
    ours = model.log_probabilities(probe, begin=False) / np.log(10)
    np.testing.assert_allclose(ours, [log for log, _, _ in scores], atol=1e-5)


@pytest.mark.skipif(SHAPES, reason="the shape hook objects first, in words of its own")
@pytest.mark.parametrize(
    ("ids", "order", "vocab", "words"),
    [
        (np.arange(4), 9, 6, "order of n-grams"),
        (np.arange(4), 0, 6, "order of n-grams"),
        (np.arange(4), 5, 6, "above the text"),
        (np.arange(4), 2, 3, "ids must be"),
        (np.arange(4) - 1, 2, 6, "ids must be"),
        (np.ones(4), 2, 6, "whole numbers"),
        (np.arange(4), 2, 0, "vocab"),
    ],
)
def test_wrong_input_is_an_error(ids, order, vocab, words) -> None:
    with pytest.raises(ValueError, match=words):
        kneser_ney(ids, order, vocab)


@pytest.mark.parametrize("words", [["a"], ["a", "a", "b"], ["a", "b c", "d"], ["a", "", "d"], ["a", "<s>", "d"]])
def test_words_that_an_arpa_file_cannot_hold_are_an_error(words) -> None:
    with pytest.raises(ValueError, match="ARPA"):
        list(kneser_ney(np.array([0, 1, 2, 0]), 2, 3).arpa(words))
