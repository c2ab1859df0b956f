"""The ring against a list: any size, any number of tokens read, rows of different lengths."""

import itertools

import pytest
import torch
from torch import Tensor

from seqloom.ops.past.ring import latest, pick, times, write, write_

D = 2


def token(row: int, time: int) -> Tensor:
    return torch.tensor([float(row + 1), float(time + 1)], dtype=torch.float64)


def tokens(row: int, begin: int, end: int) -> Tensor:
    return torch.stack([token(row, time) for time in range(begin, end)]) if end > begin else torch.zeros(0, D).double()


def filled(size: int, length: list[int]) -> Tensor:
    """The ring of its docstring: slot s holds the latest time ≡ s (mod size)."""
    ring = torch.zeros(len(length), size, D, dtype=torch.float64)
    for row, count in enumerate(length):
        for time in range(count):
            ring[row, time % size] = token(row, time)
    return ring


SIZES = [1, 2, 3, 4, 7]
LENGTHS = [[0, 1], [3, 2], [4, 9], [12, 0]]


@pytest.mark.parametrize(("size", "length"), list(itertools.product(SIZES, LENGTHS)))
def test_times(size: int, length: list[int]) -> None:
    result = times(size, torch.tensor(length))
    for row, count in enumerate(length):
        for position in range(size):
            held = [time for time in range(count) if time % size == position]
            assert int(result[row, position]) == held[-1] if held else int(result[row, position]) < 0


@pytest.mark.parametrize(("size", "length", "T"), list(itertools.product(SIZES, LENGTHS, [1, 2, 5, 9])))
def test_write_is_writing_one_after_another(size: int, length: list[int], T: int) -> None:
    for lengths in ([T, T], [0, T], [T, 0], [max(T - 1, 0), 1]):
        x = torch.full((2, T, D), 77.0, dtype=torch.float64)  # padding must not be written
        for row in range(2):
            x[row, : lengths[row]] = tokens(row, length[row], length[row] + lengths[row])
        ring = filled(size, length)
        before = ring.clone()
        result = write(ring, torch.tensor(length), x, torch.tensor(lengths))
        assert torch.equal(result, filled(size, [a + b for a, b in zip(length, lengths, strict=True)]))
        assert torch.equal(ring, before), "the given ring was written into"


@pytest.mark.parametrize(("size", "length"), list(itertools.product(SIZES, LENGTHS)))
def test_write_one_in_place(size: int, length: list[int]) -> None:
    ring = filled(size, length)
    result = write_(ring, torch.tensor(length), torch.stack([token(row, length[row]) for row in range(2)]))
    assert result.data_ptr() == ring.data_ptr()
    assert torch.equal(result, filled(size, [count + 1 for count in length]))


@pytest.mark.parametrize(("size", "length"), list(itertools.product(SIZES, LENGTHS)))
def test_latest(size: int, length: list[int]) -> None:
    for count in range(size + 1):
        result = latest(filled(size, length), torch.tensor(length), count)
        for row in range(2):
            begin = max(0, length[row] - count)
            assert torch.equal(result[row, count - (length[row] - begin) :], tokens(row, begin, length[row]))
            assert bool((result[row, : count - (length[row] - begin)] == 0).all())


def test_latest_of_an_empty_position_is_0_whatever_it_held() -> None:
    ring = torch.full((2, 4, D), float("nan"), dtype=torch.float64)
    ring[:, 0] = 1.0
    assert torch.equal(latest(ring, torch.tensor([1, 1]), 3)[:, :2], torch.zeros(2, 2, D).double())


def test_a_ring_of_size_0() -> None:
    ring = torch.zeros(2, 0, D).double()
    length = torch.tensor([3, 4])
    assert times(0, length).shape == (2, 0)
    assert write(ring, length, tokens(0, 0, 3).expand(2, 3, D), torch.tensor([3, 3])).shape == (2, 0, D)
    assert write_(ring, length, torch.ones(2, D).double()).shape == (2, 0, D)
    assert latest(ring, length, 0).shape == (2, 0, D)


def test_gradients_of_write() -> None:
    ring, x = filled(3, [4, 1]).requires_grad_(), torch.ones(2, 2, D).double().requires_grad_()
    write(ring, torch.tensor([4, 1]), x, torch.tensor([2, 1])).sum().backward()
    assert x.grad[:, :, 0].tolist() == [[1, 1], [1, 0]]
    assert ring.grad[:, :, 0].tolist() == [[1, 0, 0], [1, 0, 1]]


def test_pick() -> None:
    x = torch.stack([tokens(row, 0, 5) for row in range(2)])
    positions = torch.tensor([[4, 0, 0], [1, 2, 3]])
    result = pick(x, positions)
    for row in range(2):
        assert torch.equal(result[row], x[row][positions[row]])
    assert pick(x, positions[:, :0]).shape == (2, 0, D)
