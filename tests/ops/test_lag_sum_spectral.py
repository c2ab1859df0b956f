"""The lag sum by transforms in C: chunks and blocks of every size, any memory layout and number of threads."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from seqloom.counting.count import Executed, count
from seqloom.ops import backends
from seqloom.ops.lag_sum import lags, spectral
from tests.ops.needing import needs_native
from tests.ops.test_lag_sum import numbers

pytestmark = needs_native
SIZES = [
    (3, 21, 1, (1,), 4),
    (2, 30, 7, (7,), 40),
    (9, 130, 16, (16,), 3),
    (1, 290, 40, (40,), 129),
    (2, 600, 17, (17,), 600),
    (2, 33, 1, (1, 1), 5),
    (1, 16, 20, (20, 20), 16),
    (3, 70, 50, (50, 50), 20),
    (2, 100, 70, (70, 70), 7),
    (5, 64, 48, (48, 48), 64),
    (2, 45, 66, (2, 33, 33), 33),
    (2, 40, 12, (6, 2, 2), 40),
]
"""B, T, D, the shape of a tap, L: chunks, steps by two and four, whole vectors and blocks and what is left of them"""


def inputs(B: int, T: int, D: int, tap: tuple[int, ...], L: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    w = numbers(L, *tap, seed=1) / (L * (tap[-1] if len(tap) > 1 else 1)) ** 0.5
    return [each.to(dtype).requires_grad_() for each in (numbers(B, T, D), w)]


def all_of_it(backend: str, leaves: list[Tensor]) -> list[Tensor]:
    """Outputs and gradients of everything."""
    with backends.use(lag_sum=backend):
        y = lags(*leaves)
    given = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y.detach(), *torch.autograd.grad(y, leaves, given)]


@pytest.mark.parametrize(("B", "T", "D", "tap", "L"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_any_number_of_channels_positions_and_lags(
    dtype: torch.dtype, B: int, T: int, D: int, tap: tuple[int, ...], L: int
) -> None:
    leaves = inputs(B, T, D, tap, L, dtype)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    for actual, expected in zip(all_of_it("spectral", leaves), all_of_it("direct", exact), strict=True):
        eps = 1e-6 if dtype == torch.float32 else 1e-14
        assert float((actual.double() - expected).norm() / expected.norm()) < eps


@pytest.mark.slow
@pytest.mark.parametrize(("D", "tap", "T"), [(4, (4,), 20_000), (80, (80, 80), 1500)])
def test_transforms_and_blocks_larger_than_a_cache(D: int, tap: tuple[int, ...], T: int) -> None:
    """Of matrices, the rows of a block are several; of channels, steps of a transform go part by part."""
    leaves = inputs(2, T, D, tap, T)
    for actual, expected in zip(all_of_it("spectral", leaves), all_of_it("fft", leaves), strict=True):
        assert float((actual - expected).norm() / expected.norm()) < 1e-13


@pytest.mark.parametrize("tap", [(6,), (6, 6), (2, 3, 3)])
def test_lag_sum_spectral_of_any_layout_in_memory(tap: tuple[int, ...]) -> None:
    x, w = (each.detach() for each in inputs(2, 9, 6, tap, 4))
    with backends.use(lag_sum="spectral"):
        expected = lags(x, w)
        assert torch.equal(lags(x.mT.contiguous().mT, w.mT.contiguous().mT), expected)
        assert torch.equal(lags(torch.stack([x, x], 1)[:, 1], torch.stack([w, w], 1)[:, 1]), expected)


@pytest.mark.parametrize("tap", [(40,), (40, 40)])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_stays_in_its_row_and_at_most_a_chunk_before_it(bad: float, tap: tuple[int, ...]) -> None:
    x, w = (each.detach() for each in inputs(2, 60, 40, tap, 16))
    spoilt = x.clone()
    spoilt[1, 37, 17] = bad
    with backends.use(lag_sum="spectral"):
        expected, y = lags(x, w), lags(spoilt, w)
    assert torch.equal(y[0], expected[0])
    assert torch.equal(y[1, :32], expected[1, :32])
    assert not bool(y[1, 37].isfinite().all())
    if len(tap) == 1:  # and in its channel
        rest = [c for c in range(40) if c != 17]
        assert torch.equal(y[1][:, rest], expected[1][:, rest])


@pytest.mark.parametrize("tap", [(16,), (16, 16)])
def test_only_the_inputs_are_saved_for_backward(tap: tuple[int, ...]) -> None:
    kept: list[Tensor] = []
    x, w = inputs(2, 64, 16, tap, 64)
    with backends.use(lag_sum="spectral"), saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        lags(x, w)
    assert {each.data_ptr() for each in kept} <= {x.data_ptr(), w.data_ptr()}


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize("tap", [(4,), (4, 4), (2, 2, 2)])
def test_as_operators_of_torch(tap: tuple[int, ...]) -> None:
    x, w = inputs(2, 20, 4, tap, 7)
    torch.library.opcheck(spectral.forward.operator, (x, w))
    torch.library.opcheck(spectral.backward.operator, (x.detach(), w.detach(), x.detach(), True, True))


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize("tap", [(4,), (4, 4)])
def test_in_a_captured_graph(tap: tuple[int, ...]) -> None:
    x, w = inputs(2, 20, 4, tap, 20)
    with backends.use(lag_sum="spectral"):
        compiled = torch.compile(lags, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x, w), lags(x, w), rtol=0, atol=0)


def test_it_has_a_price() -> None:
    """Per channel three transforms of length 16, in two steps of four quarters: 12 products and 22 sums a quarter.

    Then a complex product at each position, and the scale. For two channels that mix, 2 + 2 + 4 transforms, and at each
    position 4 products, each of three real ones, with their sums and differences.
    """
    x, w = (each.detach() for each in inputs(1, 16, 1, (1,), 16))
    two, mixing = (each.detach() for each in inputs(1, 16, 2, (2, 2), 16))
    with backends.use(lag_sum="spectral"):
        assert count(lambda: lags(x, w)) == Executed(mul=3 * 96 + 16 * 4 + 16, add=3 * 176 + 16 * 2)
        assert count(lambda: lags(two, mixing)) == Executed(
            mul=8 * 96 + 16 * 12 + 32, add=8 * 176 + 16 * (3 * 2 + 3 * 2 + 4 + 2)
        )
