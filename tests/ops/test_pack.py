"""Packing: kept tokens first, in order; everything scattered back; packed documents as separate rows."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.ops.past.pack import by_length, join, pack, separate, unpack


def numbers(*shape: int) -> Tensor:
    return torch.arange(1.0, 1 + math.prod(shape), dtype=torch.float64).view(*shape)


def masks() -> Tensor:
    """All 16 masks of 4 positions."""
    return torch.tensor([[bool(n >> position & 1) for position in range(4)] for n in range(16)])


def test_every_mask_of_four_positions() -> None:
    keep = masks()
    x = numbers(16, 4, 2)
    rows, positions = pack(x, keep)
    assert positions.lengths.tolist() == [bin(n).count("1") for n in range(16)]
    for row in range(16):
        kept = x[row, keep[row]]
        assert torch.equal(rows[row, : len(kept)], kept)
        assert bool((rows[row, len(kept) :] == 0).all())
        assert positions.real[row].tolist() == [position < len(kept) for position in range(4)]
    assert torch.equal(unpack(rows, positions), torch.where(keep[..., None], x, 0.0))
    assert torch.equal(unpack(rows + 5.0, positions), torch.where(keep[..., None], x + 5.0, 0.0)), "padding came back"


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, 1e6])
def test_what_a_dropped_token_held_is_gone(rubbish: float) -> None:
    keep, x = masks(), numbers(16, 4, 2)
    noisy = torch.where(keep[..., None], x, rubbish).requires_grad_()
    rows, positions = pack(noisy, keep)
    assert torch.equal(rows, pack(x, keep)[0])
    back = unpack(torch.where(positions.real[..., None], rows, rubbish), positions)
    back.sum().backward()
    assert torch.equal(back, torch.where(keep[..., None], x, 0.0))
    assert torch.equal(noisy.grad, keep[..., None].expand_as(x).double())


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 4, 3), (1, 1, 1)])
def test_small_shapes(shape: tuple[int, int, int]) -> None:
    x, keep = numbers(*shape), torch.ones(shape[:2], dtype=torch.bool)
    assert torch.equal(unpack(*pack(x, keep)), x)


def test_the_dtype_is_preserved() -> None:
    for dtype in (torch.bfloat16, torch.float32):
        rows, positions = pack(numbers(16, 4, 2).to(dtype), masks())
        assert rows.dtype == unpack(rows, positions).dtype == dtype


DOCUMENTS = torch.tensor([[0, 0, 1, 1, 1, -1], [5, 5, 5, 5, 5, 5], [-1, 2, -1, 2, 0, 7], [-1, -1, -1, -1, -1, -1]])


def test_each_document_gets_a_separate_row() -> None:
    x = numbers(4, 6, 2)
    rows, keep, where = separate(x, DOCUMENTS)
    expected = [x[b, DOCUMENTS[b] == n] for b, n in ((0, 0), (0, 1), (1, 5), (2, 0), (2, 2), (2, 7))]
    assert rows.shape == (6, 6, 2)
    assert keep.sum(1).tolist() == [len(tokens) for tokens in expected]
    for row, tokens in enumerate(expected):
        assert torch.equal(rows[row, : len(tokens)], tokens)
        assert bool((rows[row, len(tokens) :] == 0).all())
    assert torch.equal(join(rows, DOCUMENTS, where), torch.where((DOCUMENTS >= 0)[..., None], x, 0.0))
    assert torch.equal(join(rows * 2, DOCUMENTS, where)[0, 2], x[0, 2] * 2)


def test_packed_documents_equal_separate_ones() -> None:
    """Whatever reads each row from its beginning reads each document from its beginning."""
    x = numbers(4, 6, 2)
    rows, keep, where = separate(x, DOCUMENTS)
    y = join(unpack(pack(rows, keep)[0].cumsum(1), pack(rows, keep)[1]), DOCUMENTS, where)
    for b in range(4):
        for n in set(DOCUMENTS[b].tolist()) - {-1}:
            mine = DOCUMENTS[b] == n
            assert torch.equal(y[b, mine], x[b, mine].cumsum(0))


def test_gradients_through_documents() -> None:
    x = numbers(4, 6, 2).requires_grad_()
    rows, _, where = separate(x, DOCUMENTS)
    join(rows.square(), DOCUMENTS, where).sum().backward()
    assert torch.equal(x.grad, torch.where((DOCUMENTS >= 0)[..., None], 2 * x.detach(), 0.0))


def test_no_document_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="no token belongs to a document"):
        separate(numbers(1, 3, 2), torch.full((1, 3), -1))


def test_groups_hold_documents_of_similar_lengths() -> None:
    lengths = [1, 2, 3, 4, 5, 6, 9, 10, 17, 18, 2]
    width = sum(lengths) + 2
    first = torch.cat([torch.full((n,), number) for number, n in enumerate(lengths)] + [torch.tensor([-1, -1])])
    second = torch.cat([torch.zeros(5, dtype=torch.long), torch.full((width - 5,), -1)])
    document = torch.stack([first, second])
    groups = by_length(document)
    assert [sorted(separate(document[:, :, None], group)[1].sum(1).tolist()) for group in groups] == [
        [1, 2, 2],
        [3],
        [4, 5, 5],
        [6, 9],
        [10, 17],
        [18],
    ]
    assert torch.equal(torch.stack(groups).amax(0), document)
    assert by_length(torch.full((2, 3), -1)) == []
