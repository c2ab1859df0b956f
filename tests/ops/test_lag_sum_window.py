"""The lag sum token by token: against the sum over the whole, after any number of tokens, and what it copies."""

import pytest
import torch
from torch import Tensor

from seqloom.analysis.measure import peak_bytes
from seqloom.core.state import Length, bound_state, measure_length
from seqloom.ops.lag_sum import lags, taps, window

D = 4
GROUPS = {"mixing": 1, "grouped": 2, "each": D, "shared": "shared"}
every_kind = pytest.mark.parametrize("kind", GROUPS)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(kind: str, L: int, dim: int = D) -> Tensor:
    return numbers(L, *taps.shape(dim, dim if kind == "each" else GROUPS[kind]), seed=1)


def begun(L: int, histories: list[Tensor], w: Tensor) -> tuple[Tensor, Length]:
    """The window after each row has read its history, and how many tokens that were."""
    lengths = torch.tensor([len(history) for history in histories])
    rows = torch.nn.utils.rnn.pad_sequence(histories, batch_first=True, padding_value=77.0)
    empty = bound_state({"past": window.empty(len(histories), L, D, w), "length": torch.zeros_like(lengths)})
    return window.carry(rows, w, empty, "past", lengths)[1]["past"], measure_length(lengths)


@pytest.mark.sample(7)
@every_kind
@pytest.mark.parametrize("L", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("reuse", [[True] * 19, [False] * 19, [n % 3 == 1 for n in range(19)]])
def test_token_by_token_is_the_whole(kind: str, L: int, reuse: list[bool]) -> None:
    z, w = numbers(2, 19, D), drawn(kind, L)
    past, result = window.empty(2, L, D, w), []
    for position, again in enumerate(reuse):
        y, past = window.advance(z[:, position], w, past, measure_length(torch.full((2,), position)), again)
        result.append(y)
    torch.testing.assert_close(torch.stack(result, 1), lags(z, w), rtol=0, atol=1e-12)


@pytest.mark.sample(7)
@every_kind
@pytest.mark.parametrize("L", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("read", [(0, 0, 0), (0, 1, 3), (4, 4, 4), (7, 2, 30), (8, 16, 24)])
def test_rows_that_have_read_differently(kind: str, L: int, read: tuple[int, ...]) -> None:
    w, z = drawn(kind, L), numbers(3, 6, D, seed=9)
    histories = [numbers(n, D, seed=row) for row, n in enumerate(read)]
    past, length = begun(L, histories, w)
    state = bound_state({"past": past, "length": length.tokens})
    piece, entries = window.carry(z, w, state, "past")
    padded, same = window.carry(z, w, state, "past", torch.tensor([6, 6, 6]))
    assert padded.equal(piece)
    assert same["past"].equal(entries["past"])
    for position in range(6):
        y, past = window.advance(z[:, position], w, past, length.after(position, position), reuse=True)
        torch.testing.assert_close(y, piece[:, position], rtol=0, atol=1e-12)
    for row, history in enumerate(histories):
        whole = lags(torch.cat([history, z[row]])[None], w)[0, len(history) :]
        torch.testing.assert_close(piece[row], whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("L", [2, 3, 6])
@pytest.mark.parametrize("read", [(0, 1), (3, 3), (5, 12)])
def test_where_the_inputs_lie(L: int, read: tuple[int, int]) -> None:
    """As the docstring says: the input at time t at position -1-t (mod L-1), 0 where there was none."""
    histories = [numbers(n, D, seed=row) for row, n in enumerate(read)]
    actual, length = begun(L, histories, drawn("shared", L))
    stepped = window.advance(numbers(2, D), drawn("shared", L), actual, length, reuse=False)[1]
    for row, history in enumerate(histories):
        for lain, inputs in ((actual, history), (stepped, torch.cat([history, numbers(2, D)[row : row + 1]]))):
            expected = torch.zeros(L - 1, D, dtype=torch.float64)
            for time, token in enumerate(inputs):
                expected[(-1 - time) % (L - 1)] = token
            assert torch.equal(lain[row], expected)


@every_kind
@pytest.mark.parametrize("read", [(9, 9), (2, 9)])
def test_which_processes_write_which_files(kind: str, read: tuple[int, int]) -> None:
    w = drawn(kind, 5)
    past, length = begun(5, [numbers(n, D) for n in read], w)
    was, z = past.clone(), numbers(2, D)
    _, kept = window.advance(z, w, past, length, reuse=False)
    assert torch.equal(past, was)
    _, given_up = window.advance(z, w, past, length, reuse=True)
    assert given_up.data_ptr() == past.data_ptr()
    assert torch.equal(given_up, kept)


@pytest.mark.parametrize("read", [(600, 600, 600), (3, 600, 77)])
@pytest.mark.parametrize("added", [1, 100, 1000])
@torch.no_grad()
def test_long_sums_in_parts(monkeypatch: pytest.MonkeyPatch, read: tuple[int, ...], added: int) -> None:
    w, z = drawn("each", 513), numbers(3, D, seed=5)
    past, length = begun(513, [numbers(n, D, seed=row) for row, n in enumerate(read)], w)
    expected = window.advance(z, w, past, length, reuse=False)[0]
    monkeypatch.setattr(window, "ADDED", added)
    torch.testing.assert_close(window.advance(z, w, past, length, reuse=False)[0], expected, rtol=0, atol=1e-11)


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("read", [(6, 6), (2, 6)])
def test_derivatives_of_lag_sum_window_by_differences(kind: str, read: tuple[int, int]) -> None:
    length = measure_length(torch.tensor(read))

    def advance(z: Tensor, w: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        return window.advance(z, w, past, length, reuse=False)

    inputs = [numbers(2, D), drawn(kind, 5), begun(5, [numbers(n, D) for n in read], drawn(kind, 5))[0]]
    inputs = [each.requires_grad_() for each in inputs]
    assert torch.autograd.gradcheck(advance, inputs, atol=1e-8, rtol=1e-7)
    assert torch.autograd.gradgradcheck(advance, inputs, fast_mode=True, atol=1e-8, rtol=1e-7)


@pytest.mark.parametrize(("kind", "allowed"), [("mixing", 0.01), ("each", 1.1), ("shared", 0.1)])
@torch.no_grad()
def test_nothing_is_copied_where_rows_agree(kind: str, allowed: float) -> None:
    """What one token makes, in multiples of the window: for matrices and shared taps not even a copy of that."""
    L, dim = 257, 64
    w, z, past = drawn(kind, L, dim), numbers(2, dim), numbers(2, L - 1, dim)
    length = measure_length(torch.full((2,), 300))
    made = peak_bytes(lambda: window.advance(z, w, past, length, reuse=True))
    assert made <= allowed * past.nbytes + 8 * z.nbytes


@every_kind
def test_number_types_of_lag_sum_window(kind: str) -> None:
    w, past, z = drawn(kind, 5), numbers(2, 4, D), numbers(2, D)
    for length in (measure_length(torch.tensor([7, 7])), measure_length(torch.tensor([3, 7]))):
        expected = window.advance(z, w, past, length, reuse=False)[0]
        y, after = window.advance(z.bfloat16(), w, past.float(), length, reuse=False)
        assert y.dtype == torch.bfloat16
        assert after.dtype == torch.float32
        torch.testing.assert_close(y.double(), expected, rtol=0.05, atol=0.1)


@pytest.mark.parametrize(
    ("groups", "shape", "inside"),
    [(1, (D, D), D), (2, (2, 2, 2), 2), (D, (D,), 1), ("shared", (), 1)],
)
def test_kinds_of_taps(groups: taps.Groups, shape: tuple[int, ...], inside: int) -> None:
    assert taps.shape(D, groups) == shape
    assert taps.products_per_tap(torch.empty(3, *shape)) == inside


@pytest.mark.parametrize("groups", [0, 3, 2 * D])
def test_groups_that_do_not_divide_are_errors(groups: int) -> None:
    with pytest.raises(ValueError, match=f"groups {groups}"):
        taps.shape(D, groups)
