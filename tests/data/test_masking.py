"""Masked tokens: a number per row, replaced in the proportions of BERT, the same however rows are cut."""

import numpy as np
import pytest

from seqloom.data.masking import hide_tokens

VOCAB, MASK = 50, 50


def rows(count: int, width: int, share: float = 0.15, seed: int = 0, first: int = 0) -> tuple[np.ndarray, ...]:
    ids = np.arange(count * width).reshape(count, width) % VOCAB
    keep = np.ones_like(ids, bool)
    return ids, *hide_tokens(ids, keep, share=share, vocab=VOCAB, mask=MASK, seed=seed, first=first)


@pytest.mark.parametrize(("width", "share", "count"), [(128, 0.15, 19), (4, 0.15, 1), (1, 0.15, 1), (10, 0.5, 5)])
def test_every_row_hides_as_many(width: int, share: float, count: int) -> None:
    _, _, chosen = rows(8, width, share)
    assert (chosen.sum(1) == count).all()


def test_a_chosen_token_is_masked_replaced_or_left() -> None:
    ids, inputs, chosen = rows(400, 128)
    assert (inputs[~chosen] == ids[~chosen]).all()
    total = chosen.sum()
    masked = (inputs == MASK).sum() / total
    same = (inputs == ids)[chosen].sum() / total
    assert masked == pytest.approx(0.8, abs=0.02)
    assert same == pytest.approx(0.1 + 0.1 / VOCAB, abs=0.02)
    replaced = inputs[chosen & (inputs != MASK) & (inputs != ids)]
    assert set(replaced.tolist()) == set(range(VOCAB))
    assert chosen.mean(0) == pytest.approx(np.full(128, 19 / 128), abs=0.09), "every position is as likely"


def test_rows_depend_on_seed_and_number_alone() -> None:
    _, inputs, chosen = rows(6, 16)
    ids = np.arange(6 * 16).reshape(6, 16) % VOCAB
    keep = np.ones((2, 16), bool)
    part, of_part = hide_tokens(ids[2:4], keep, share=0.15, vocab=VOCAB, mask=MASK, seed=0, first=2)
    assert (part == inputs[2:4]).all()
    assert (of_part == chosen[2:4]).all()
    assert (rows(6, 16, seed=1)[2] != chosen).any()
    assert (rows(6, 16, first=6)[2] != chosen).any()


def test_only_kept_tokens_are_hidden() -> None:
    ids = np.zeros((3, 20), np.int64)
    keep = np.arange(20) < np.array([[20], [7], [1]])
    inputs, chosen = hide_tokens(ids, keep, share=0.15, vocab=VOCAB, mask=MASK, seed=0, first=0)
    assert not chosen[~keep].any()
    assert chosen.sum(1).tolist() == [3, 1, 1]
    assert (inputs[~keep] == 0).all()


def test_spans_hide_as_many_tokens_together() -> None:
    ids = np.arange(400 * 128).reshape(400, 128) % VOCAB
    keep = np.ones_like(ids, bool)
    keep[:, 120:] = False
    settings = {"share": 0.15, "vocab": VOCAB, "mask": MASK, "seed": 0}
    inputs, chosen = hide_tokens(ids, keep, **settings, first=0, span=5.0)
    assert (chosen.sum(1) == 18).all()
    assert not chosen[:, 120:].any()
    assert (inputs[~chosen] == ids[~chosen]).all()
    runs = (chosen & ~np.pad(chosen, ((0, 0), (1, 0)))[:, :-1]).sum(1)
    alone = hide_tokens(ids, keep, **settings, first=0)[1]
    assert runs.mean() < 6 < 14 < (alone & ~np.pad(alone, ((0, 0), (1, 0)))[:, :-1]).sum(1).mean()
    masked = inputs == MASK
    assert masked.sum() / chosen.sum() == pytest.approx(0.8, abs=0.04)
    inside = chosen[:, 1:] & chosen[:, :-1]
    assert (masked[:, 1:] == masked[:, :-1])[inside].mean() > 0.9, "a span is masked as a whole"
    part = hide_tokens(ids[7:9], keep[7:9], **settings, first=7, span=5.0)[1]
    assert (part == chosen[7:9]).all()
