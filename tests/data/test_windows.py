"""Shuffles are bijections, batches need only (seed, step), and every held-out id is a target once."""

import numpy as np
import pytest
import torch

from seqloom.data.permutation import permute
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows, held_out

EOS = 0
SIZES = [*range(1, 70), 97, 127, 128, 129, 255, 257, 1000, 1023, 1025, 4099, 65537, 99991]


def tokens(*lengths: int) -> Tokens:
    """Documents of so many words each; all words differ."""
    words = iter(range(1, 60000))
    ids = [np.array([*(next(words) for _ in range(length)), EOS], np.uint16) for length in lengths]
    ends = np.cumsum([len(document) for document in ids])
    return Tokens(np.concatenate(ids), np.append(0, ends[:-1]), np.array(lengths, np.int64))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, -5, 2**70])
def test_the_shuffle_is_a_bijection(seed: int) -> None:
    for size in SIZES:
        for epoch in (0, 3):
            np.testing.assert_array_equal(np.sort(permute(np.arange(size), epoch, size, seed)), np.arange(size))


@pytest.mark.parametrize("size", [2**31 + 11, 2**40 - 87, 2**61 + 1])
def test_the_shuffle_of_huge_sizes_is_cheap_and_collides_nowhere(size: int) -> None:
    index = np.concatenate([np.arange(5000), size - 1 - np.arange(5000)])
    position = permute(index, 0, size, 0)
    assert len(np.unique(position)) == len(index)
    assert 0 <= position.min() <= position.max() < size
    assert abs(position.astype(float).mean() / size - 0.5) < 0.02


def test_the_shuffle_is_fixed_for_ever() -> None:
    assert permute(np.arange(6), 0, 1000, 0).tolist() == [590, 575, 128, 272, 271, 20]
    mixed = permute([4, 4, 4], [0, 1, 2], 1000, 0)
    assert mixed.tolist() == [int(permute(4, epoch, 1000, 0)[0]) for epoch in (0, 1, 2)]


def test_epochs_and_seeds_differ() -> None:
    index = np.arange(1000)
    orders = [permute(index, epoch, 1000, seed) for epoch in range(4) for seed in range(4)]
    for a in range(len(orders)):
        for b in range(a):
            assert (orders[a] == orders[b]).sum() < 10  # 1 expected of unrelated shuffles


@pytest.mark.parametrize("size", [7, 50, 101])
def test_permuted_indices_are_uniform_over_epochs(size: int) -> None:
    epochs = 400 * size
    for index in (0, 1, size - 1):
        count = np.bincount(permute(np.full(epochs, index), np.arange(epochs), size, 0), minlength=size)
        assert ((count - 400) ** 2 / 400).sum() < size - 1 + 5 * np.sqrt(2 * (size - 1))
    pair = [permute(np.full(epochs, index), np.arange(epochs), size, 0) for index in (0, 1)]
    count = np.bincount((pair[1] - pair[0]) % size, minlength=size)[1:]
    expected = epochs / (size - 1)
    assert ((count - expected) ** 2 / expected).sum() < size - 2 + 5 * np.sqrt(2 * (size - 2))


def test_neighbors_are_scattered() -> None:
    position = permute(np.arange(100_000), 0, 100_000, 0).astype(float)
    assert abs(np.corrcoef(position[:-1], position[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(position, np.arange(100_000))[0, 1]) < 0.02


@pytest.mark.parametrize("batch", [1, 7, 64, 200])
def test_each_epoch_sees_each_window_once(batch: int) -> None:
    windows = Windows(tokens(40, 3, 20), 8, seed=1)
    assert windows.starts == 66 - 8
    steps = -(-3 * windows.starts // batch)
    rows = torch.cat([windows.batch(step, batch) for step in range(steps)])
    assert rows.shape == (steps * batch, 9)
    assert rows.dtype == torch.int64
    whole = {tuple(row) for row in np.lib.stride_tricks.sliding_window_view(tokens(40, 3, 20).ids, 9).tolist()}
    epochs = [[tuple(row) for row in part.tolist()] for part in rows[: 3 * windows.starts].split(windows.starts)]
    for epoch in epochs:
        assert len(epoch) == len(whole)
        assert set(epoch) == whole
    assert epochs[0] != epochs[1] != epochs[2]
    assert windows.epochs(steps, batch) == steps * batch / 58


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    first, second = (Windows(tokens(500), 16, seed=3) for _ in range(2))
    expected = [first.batch(step, 4) for step in range(6)]
    for step in (5, 0, 3):
        assert torch.equal(second.batch(step, 4), expected[step])
    assert not torch.equal(Windows(tokens(500), 16, seed=4).batch(0, 4), expected[0])
    assert torch.equal(first.batch(0, 8), torch.cat(expected[:2]))
    assert first.batch(10**12, 64).shape == (64, 17)


def test_within_documents_no_window_holds_two(capsys) -> None:
    text = tokens(30, 4, 2, 9)
    windows = Windows(text, 5, seed=0, within_documents=True)
    owner = {int(word): k for k in range(4) for word in text.ids[text.starts[k] : text.ends[k] - 1]}
    rows = windows.batch(0, windows.starts).tolist()
    assert len({tuple(row) for row in rows}) == windows.starts == 26 + 1 + 6
    for row in rows:
        assert len({owner[word] for word in row if word != EOS}) == 1
        assert EOS not in row[1:-1]
    assert {owner[word] for row in rows for word in row if word != EOS} == {0, 1, 3}
    assert "1 of 4 documents are shorter than one window of 6 tokens" in capsys.readouterr().err


@pytest.mark.parametrize(("inside", "message"), [(False, "10 tokens are less"), (True, "no document holds")])
def test_too_little_text_is_an_error(inside: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Windows(tokens(9), 10, seed=0, within_documents=inside)


@pytest.mark.parametrize("context", [1, 3, 4, 8, 50])
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_held_out_ids_are_targets_once_after_what_precedes_them(context: int, batch: int) -> None:
    text = tokens(7, 1, 12, 3)
    expected = []
    for start, end in zip(text.starts, text.ends, strict=True):
        document = [EOS, *text.ids[start:end].tolist()]
        for first in range(0, len(document) - 1, context):
            expected.append((document[first:-1][:context], document[first + 1 :][:context]))
    actual = []
    for inputs, targets, keep in held_out(text, context, batch):
        assert inputs.shape == targets.shape == keep.shape
        assert inputs.shape[1] == context
        assert 1 <= len(inputs) <= batch
        assert (inputs.dtype, targets.dtype, keep.dtype) == (torch.int64, torch.int64, torch.bool)
        assert (keep.long().diff(dim=1) <= 0).all()
        assert (inputs[~keep] == EOS).all()
        assert (targets[~keep] == EOS).all()
        actual += [(i[k].tolist(), t[k].tolist()) for i, t, k in zip(inputs, targets, keep, strict=True)]
    assert actual == expected
    assert [word for _, row in actual for word in row] == text.ids.tolist()


def test_disjoint_windows_predict_each_id_once_an_epoch() -> None:
    text = tokens(50)
    windows = Windows(text, 7, seed=0, disjoint=True)
    count = (len(text) - 1) // 7
    assert windows.starts == count
    targets = windows.batch(0, count)[:, 1:].flatten().tolist()
    assert sorted(targets) == sorted(text.ids[1 : 1 + 7 * count].tolist())
    with pytest.raises(ValueError, match="less than one window"):
        Windows(tokens(5), 7, seed=0, disjoint=True)
