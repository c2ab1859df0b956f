"""The exact lag sum against the direct one, outputs and gradients; that it is exactly causal; what is saved."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.core.state import measure_length
from seqloom.ops.backends import record_backends, use
from seqloom.ops.fixed.implicit_filter import exact
from seqloom.ops.fixed.implicit_filter.kept import Kept
from seqloom.ops.lag_sum import lags

SIZES = [(1, 1), (1, 5), (7, 3), (16, 16), (40, 9), (33, 64), (64, 33), (100, 100), (129, 17)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("T", "L"), SIZES)
@pytest.mark.parametrize("backend", ["reference", "direct", "fft"])
def test_the_lag_sum_of_implicit_filter(T: int, L: int, backend: str) -> None:
    x, w, dy = draw(2, T, 3).requires_grad_(), draw(L, 3, seed=1).requires_grad_(), draw(2, T, 3, seed=2)
    with use(lag_sum=backend), record_backends() as ran:
        y = exact.lags(x, w)
    with use(lag_sum="direct"):
        expected = lags(x, w)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-11)
    for actual, right in zip(*(torch.autograd.grad(each, (x, w), dy) for each in (y, expected)), strict=True):
        torch.testing.assert_close(actual, right, rtol=0, atol=1e-11)
    assert ran == {"lag_sum": [backend]}


def test_both_derivatives_of_implicit_filter() -> None:
    x, w = draw(1, 19, 2).requires_grad_(), draw(17, 2, seed=1).requires_grad_()
    with use(lag_sum="fft"):
        assert gradcheck(exact.lags, (x, w), fast_mode=True)
        assert gradgradcheck(exact.lags, (x, w), fast_mode=True)


@pytest.mark.parametrize(("T", "L"), [(40, 9), (100, 100)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_later_input_changes_a_bit_of_an_output(T: int, L: int, dtype: torch.dtype) -> None:
    x, w = draw(2, T, 3).to(dtype), draw(L, 3, seed=1).to(dtype)
    with use(lag_sum="fft"):
        y = exact.lags(x, w)
        assert y.dtype == dtype
        for position in (1, 8, 9, T // 2, T - 1):
            changed = x.clone()
            changed[:, position:] *= 1e12
            assert torch.equal(exact.lags(changed, w)[:, :position], y[:, :position])
            assert not torch.equal(exact.lags(changed, w)[:, position:], y[:, position:])
        assert dtype is torch.bfloat16 or not torch.equal(lags(changed, w)[:, :-1], lags(x, w)[:, :-1]), "a whole FFT"


def test_as_many_values_are_cached_as_asked_for() -> None:
    weight, asked, kept = torch.ones(3), [], Kept()

    def compute(first: int, last: int) -> Tensor:
        asked.append((first, last))
        return (torch.arange(first, last)[None, :, None] + weight).clone()

    with torch.no_grad():
        for lengths, expected in (([0, 2], 3), ([1, 1], 2), ([6, 0], 4), ([2, 3], 4)):
            actual = kept.reaching(measure_length(torch.tensor(lengths)), 1, 4, [weight], compute)
            assert torch.equal(actual, torch.arange(expected)[None, :, None] + weight)
    assert asked == [(0, 3), (3, 4)]
    weight[1] = float("nan")
    with torch.no_grad():
        for _ in range(2):
            assert bool(kept.reaching(measure_length(torch.tensor([0])), 1, 4, [weight], compute)[..., 1].isnan().all())
    assert asked[2:] == [(0, 1), (0, 1)], "NaN is equal to nothing: it is worked out each time"
