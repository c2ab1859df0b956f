"""Packed rows hold every document whole, or in pieces where it is longer than a row, and every id is a target once."""

from collections import Counter

import numpy as np
import pytest
import torch

from seqloom.data.packing import PackedRows, best_fit, require_documents
from seqloom.data.tokens import Tokens
from seqloom.data.windows import held_out
from tests.data.test_windows import tokens

EOS = 0

LENGTHS = (3, 0, 7, 20, 2, 1, 5, 8, 9, 6)
"""words; in rows of 9 tokens 0 words are a piece of 2 tokens, 7 words one that fills a row, 8 to 20 are cut"""


def pieces(rows: PackedRows, step: int, batch: int) -> list[tuple[int, ...]]:
    """The pieces of one step, with the first token that they are read from."""
    result = []
    for ids, document in zip(*rows.batch(step, batch), strict=True):
        for number in range(int(document.max()) + 1):
            result.append(tuple(ids[document == number].tolist()))
    return result


def test_the_pieces_are_the_windows_of_the_held_out_text() -> None:
    text = tokens(*LENGTHS)
    rows = PackedRows(text, 8, seed=0)
    expected = []
    for inputs, targets, keep in held_out(text, 8, 3):
        for x, y, real in zip(inputs, targets, keep, strict=True):
            expected.append((int(x[0]), *y[real].tolist()))
    packed = pieces(rows, 0, rows.rows)
    assert Counter(packed) == Counter(expected)
    assert Counter(id for piece in packed for id in piece[1:]) == Counter(text.ids.tolist())


def test_a_document_longer_than_a_row_is_cut() -> None:
    text = tokens(20, 3)
    result = sorted(pieces(PackedRows(text, 8, seed=0), 0, 4), key=lambda piece: piece[1])
    long = [EOS, *range(1, 21), EOS]
    assert result[0] == tuple(long[:9])
    assert tuple(long[8:17]) in result
    assert tuple(long[16:]) in result


def test_tokens_of_a_row_stand_together_and_padding_ends_it() -> None:
    rows = PackedRows(tokens(*LENGTHS), 8, seed=1)
    ids, document = rows.batch(0, rows.rows)
    assert ids.shape == document.shape == (rows.rows, 9)
    assert bool((document[:, 0] == 0).all())
    for row in document:
        real = row[row >= 0]
        assert bool((row[len(real) :] == -1).all())
        assert set(real.diff().tolist()) <= {0, 1}
    assert bool((ids[document < 0] == EOS).all())
    assert rows.padding == pytest.approx(float((document < 0).double().mean()))
    assert f"{rows.rows} rows of 9 tokens, {rows.padding:.1%} padding" in rows.description
    assert rows.description.startswith("packed: 10 documents in 14 pieces in ")


def test_each_piece_goes_to_the_fullest_row_with_room() -> None:
    assert best_fit([5, 7, 2, 4, 3, 9, 2], 9).tolist() == [0, 1, 1, 0, 2, 3, 2]
    sizes = np.random.default_rng(0).integers(2, 130, 4000)
    row = best_fit(sizes.tolist(), 129)
    filled = np.bincount(row, sizes)
    assert filled.max() <= 129
    assert sizes.sum() / (len(filled) * 129) > 0.95


def test_epochs_visit_each_row_once_in_another_order() -> None:
    rows = PackedRows(tokens(*LENGTHS), 8, seed=3)
    epochs = [[pieces(rows, epoch * rows.rows + row, 1)[0] for row in range(rows.rows)] for epoch in range(4)]
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert all(Counter(epoch) == Counter(epochs[0]) for epoch in epochs)


def test_a_batch_needs_seed_and_step_alone() -> None:
    text = tokens(*LENGTHS)
    first = PackedRows(text, 8, seed=3)
    for step in range(5):
        first.batch(step, 4)
    for one, other in zip(first.batch(7, 4), PackedRows(text, 8, seed=3).batch(7, 4), strict=True):
        assert torch.equal(one, other)
    split = [torch.cat([first.batch(step, 2)[part] for step in (14, 15)]) for part in (0, 1)]
    assert torch.equal(split[0], first.batch(7, 4)[0])
    assert torch.equal(split[1], first.batch(7, 4)[1])
    assert not torch.equal(first.batch(7, 4)[0], PackedRows(text, 8, seed=4).batch(7, 4)[0])


def test_a_text_without_borders() -> None:
    require_documents(tokens(3, 4), "a.txt")
    with pytest.raises(ValueError, match=r"a\.txt: data\.packed fills rows .* a single one: give a folder"):
        require_documents(tokens(3), "a.txt")


@pytest.mark.parametrize(("step", "batch"), [(-1, 1), (0, 0)])
def test_no_such_batch(step: int, batch: int) -> None:
    with pytest.raises(ValueError, match="a batch needs step >= 0 and batch >= 1"):
        PackedRows(tokens(3, 4), 8, seed=0).batch(step, batch)


def test_no_context() -> None:
    none = Tokens(np.array([1, EOS], np.uint16), np.array([0]), np.array([1]))
    with pytest.raises(ValueError, match="context must be at least 1, and is 0"):
        PackedRows(none, 0, seed=0)
