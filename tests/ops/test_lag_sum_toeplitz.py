"""The product with a Toeplitz matrix, by either library: torch's own, and oneDNN's where that is the faster one."""

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.fused.projection import onednn
from seqloom.ops.lag_sum import lags

by_either = pytest.mark.parametrize("faster", [True, False], ids=["onednn", "torch"])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by(backend: str, x: Tensor, w: Tensor) -> Tensor:
    with backends.use(lag_sum=backend):
        return lags(x, w)


@by_either
@pytest.mark.parametrize(("T", "L"), [(1, 1), (32, 32), (33, 8), (8, 33)])
def test_float32_values_and_gradients(faster: bool, T: int, L: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "faster", lambda: faster)
    x, w, dy = numbers(3, T, 16), numbers(L, seed=1), numbers(3, T, 16, seed=2)
    leaves, exact = ([one.to(kind).requires_grad_() for one in (x, w)] for kind in (torch.float32, torch.float64))
    y, expected = by("toeplitz", *leaves), by("reference", *exact)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    slopes = zip(torch.autograd.grad(y, leaves, dy), torch.autograd.grad(expected, exact, dy.double()), strict=True)
    for slope, right in slopes:
        torch.testing.assert_close(slope.double(), right, rtol=1e-4, atol=1e-4)


@by_either
def test_whole_numbers_stay_whole_and_later_ones_unseen(faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "faster", lambda: faster)
    x, w = numbers(2, 48, 16).mul(9).round(), numbers(48, seed=1).mul(9).round()
    assert torch.equal(by("toeplitz", x, w).double(), by("reference", x.double(), w.double()))
    y = by("toeplitz", x, w)
    x[:, 40:] = 1e6
    assert torch.equal(by("toeplitz", x, w)[:, :40], y[:, :40])


def test_the_faster_one_is_taken_for_float32_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "faster", lambda: True)
    for kind, result in ((torch.float32, True), (torch.float64, False)):
        y = by("toeplitz", numbers(2, 8, 4).to(kind).requires_grad_(), numbers(8, seed=1).to(kind))
        assert ("Convolution" in type(y.grad_fn).__name__) is result
