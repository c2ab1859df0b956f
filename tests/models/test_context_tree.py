"""Context trees: weighting against a sum over all trees, written out; pruning by hand; the model against the tables."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from seqloom.models.ngram.config import NgramConfig
from seqloom.models.ngram.context_tree import context_tree
from seqloom.models.ngram.weighted import Weighted
from tests.conftest import SHAPES

Context = tuple[int, ...]


def text(length: int, vocab: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(vocab, size=length)


def trees(context: Context, depth: int, symbols: range) -> Iterator[tuple[float, list[Context]]]:
    """Every tree below a context: the prior 2^-(nodes above the depth), and the contexts that are its leaves."""
    if len(context) == depth:
        yield 1.0, [context]
        return
    yield 0.5, [context]
    for parts in itertools.product(*(list(trees((symbol, *context), depth, symbols)) for symbol in symbols)):
        yield 0.5 * math.prod(prior for prior, _ in parts), [leaf for _, leaves in parts for leaf in leaves]


def evidence(ids: list[int], depth: int, vocab: int) -> float:
    """P(text): each tree codes each decision in its leaf by the sequential estimator; the sum over trees, of each node.

    Two letters have one decision; three have that between {0, 1} and 2, and that between 0 and 1.
    """
    padded = [vocab] * depth + ids
    asked = {2: [lambda w: w], 3: [lambda w: w >> 1, lambda w: None if w == 2 else w]}[vocab]
    total = 1.0
    for decision in asked:
        node = 0.0
        for prior, leaves in trees((), depth, range(vocab + 1)):
            seen: dict[Context, Counter[int]] = {leaf: Counter() for leaf in leaves}
            p = prior
            for t, w in enumerate(ids, depth):
                bit = decision(w)
                leaf = next(leaf for leaf in leaves if padded[t - len(leaf) : t] == list(leaf))
                if bit is not None:
                    p *= (seen[leaf][bit] + 0.5) / (seen[leaf].total() + 1)
                    seen[leaf][bit] += 1
            node += p
        total *= node
    return total


@pytest.mark.parametrize(("vocab", "depth", "length"), [(2, 0, 9), (2, 1, 12), (2, 2, 14), (3, 1, 11), (3, 2, 9)])
def test_the_weighted_probability_is_the_sum_over_all_trees(vocab: int, depth: int, length: int) -> None:
    ids = text(length, vocab)
    weighted = context_tree(ids, depth + 1, vocab).log_evidence
    assert weighted == pytest.approx(math.log(evidence(ids.tolist(), depth, vocab)), rel=1e-12)


def counted(ids: np.ndarray, order: int, vocab: int, cutoff: float = 0.0) -> Weighted:
    model = NgramConfig(vocab=vocab, estimator="context_tree", order=order, cutoff=cutoff).build().double()
    assert isinstance(model, Weighted)
    model.fit({"ids": torch.from_numpy(ids)[None]})
    assert model.end_pass()
    return model


@pytest.mark.parametrize(("vocab", "depth"), [(2, 2), (3, 2)])
def test_the_next_token_has_the_ratio_of_the_evidence_with_it_to_that_without(vocab: int, depth: int) -> None:
    ids = text(11, vocab)
    log_p = counted(ids, depth + 1, vocab)(torch.from_numpy(ids)[None])[0, -1]
    whole = evidence(ids.tolist(), depth, vocab)
    expected = [evidence([*ids.tolist(), w], depth, vocab) / whole for w in range(vocab)]
    np.testing.assert_allclose(log_p.exp(), expected, rtol=1e-12)


@pytest.mark.parametrize("vocab", [2, 3, 7, 16, 33])
@pytest.mark.parametrize("cutoff", [0.0, 2.0])
def test_every_distribution_of_context_tree_sums_to_one(vocab: int, cutoff: float) -> None:
    model = counted(text(300, vocab), 4, vocab, cutoff)
    logits = model(torch.from_numpy(text(60, vocab, seed=1))[None])
    torch.testing.assert_close(logits.logsumexp(2), torch.zeros(1, 60, dtype=torch.float64))


def test_one_letter_takes_one_decision_that_is_no_choice() -> None:
    assert counted(np.zeros(9, dtype=np.int64), 2, 1)(torch.zeros(1, 2, dtype=torch.long)).tolist() == [[[0.0], [0.0]]]


def test_before_a_text_was_counted_every_decision_is_even() -> None:
    logits = NgramConfig(vocab=3, estimator="context_tree").build()(torch.zeros(1, 1, dtype=torch.long))
    np.testing.assert_allclose(logits.exp()[0, 0], [0.25, 0.25, 0.5])


def test_pruning_by_hand() -> None:
    # after a 0 comes a 1 in 4 of 4, after a 1 a 0 in 4 of 5; alone, each letter is one of two
    ids = np.array([0, 1, 0, 1, 0, 1, 1, 0, 1, 0])
    after = {symbol: Counter(w for v, w in itertools.pairwise(ids.tolist()) if v == symbol) for symbol in (0, 1)}
    assert after == {0: {1: 4}, 1: {0: 4, 1: 1}}
    half = {w: n / 10 for w, n in Counter(ids.tolist()).items()}
    gain = {s: sum(n * math.log(n / c.total() / half[w]) for w, n in c.items()) for s, c in after.items()}
    assert gain[0] > gain[1] > 0.7

    def contexts(cutoff: float) -> list[int]:
        return sorted({int(key) >> 1 for key in context_tree(ids, 2, 2, cutoff).depths[1].keys})

    assert contexts(gain[1] - 1e-9)[:2] == [0, 1]
    assert contexts(gain[1] + 1e-9) == [0]
    assert contexts(gain[0] + 1e-9) == []
    p = counted(ids, 2, 2, gain[1] + 1e-9)(torch.tensor([[0, 1]])).exp()[0]
    np.testing.assert_allclose(p, [[0.5 / 5, 4.5 / 5], [5.5 / 11, 5.5 / 11]])


def test_a_context_is_in_the_tree_with_every_longer_one() -> None:
    # a letter is mostly the one two before it: one letter of context gains nothing, two gain much
    draws = np.random.default_rng(0)
    ids = draws.integers(2, size=500)
    for t in range(2, 500):
        ids[t] = ids[t - 2] if draws.random() < 0.95 else 1 - ids[t - 2]
    assert len(context_tree(ids, 2, 2, 20.0).depths[1].keys) == 0
    tree = context_tree(ids, 3, 2, 20.0)
    assert (len(tree.depths[1].keys), len(tree.depths[2].keys)) == (2, 4)
    log_p = counted(ids, 3, 2, 20.0)(torch.from_numpy(ids)[None])[0, 1:-1]
    assert 0.1 < -float(log_p.gather(1, torch.from_numpy(ids)[2:, None]).mean()) < 0.3


def test_a_text_in_pieces_is_read_as_the_whole() -> None:
    model, ids = counted(text(300, 7), 4, 7), torch.from_numpy(text(20, 7, seed=1))[None]
    first, state = model.extend(ids[:, :9], model.start(1))
    second, _ = model.extend(ids[:, 9:], state)
    assert torch.equal(torch.cat([first, second], 1), model(ids))
    assert model.cost(20, "token").state == 3


@pytest.mark.skipif(SHAPES, reason="the shape hook objects first, in words of its own")
@pytest.mark.parametrize("cutoff", [-1.0, math.nan, math.inf, "1", True])
def test_a_wrong_cutoff_is_an_error(cutoff) -> None:
    with pytest.raises(ValueError, match="cutoff must be a number of nats from 0"):
        context_tree(text(9, 2), 2, 2, cutoff)


def test_kneser_ney_is_not_pruned() -> None:
    with pytest.raises(ValueError, match="cutoff prunes the contexts of estimator=context_tree"):
        NgramConfig(cutoff=1.0)
