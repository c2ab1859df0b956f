"""Separable convolutions after a mixer: their equation in plain numpy, the contract of a mixer, their price."""

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.counting.count import count
from seqloom.models.separable import KERNELS, Separable
from tests.contract.cases import DIM, drawn
from tests.models.test_channel_mix import PROMISES

WIDTH = 12


def make(context: int | None = 5, dtype: torch.dtype = torch.float64) -> Separable:
    mixing = drawn(Separable(DIM, WIDTH))
    assert isinstance(mixing, Separable)
    return mixing.to(dtype)


def around() -> Separable:
    torch.manual_seed(1)
    return Separable(DIM, WIDTH, causal=False).double()


def convolved(x: np.ndarray, kernel: Tensor, first: int) -> np.ndarray:
    """Σ_k kernel_k x_{t-k} of x (T, D), with k from `first` on, term by term."""
    y = np.zeros_like(x)
    for t in range(len(x)):
        for n, weights in enumerate(kernel.detach().numpy()):
            if 0 <= t - n - first < len(x):
                y[t] += weights * x[t - n - first]
    return y


def written_out(mixing: Separable, x: np.ndarray) -> np.ndarray:
    first = [0, 0] if mixing.causal else [-(k // 2) for k in KERNELS]
    w_1, b_1, w_2, b_2 = (
        p.detach().numpy() for p in (mixing.w_1.weight, mixing.w_1.bias, mixing.w_2.weight, mixing.w_2.bias)
    )
    h = np.maximum(convolved(x, mixing.a, first[0]) @ w_1.T + b_1, 0)
    return convolved(h, mixing.c, first[1]) @ w_2.T + b_2


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_separable_keeps_the_promises_of_a_mixer(promise) -> None:
    promise(make)


@pytest.mark.parametrize("build", [make, around])
@pytest.mark.parametrize("T", [1, 2, 9])
def test_outputs_of_separable_are_its_equation(build, T: int) -> None:
    mixing, x = build(), np.random.default_rng(T).normal(size=(2, T, DIM))
    expected = np.stack([written_out(mixing, row) for row in x])
    np.testing.assert_allclose(mixing(torch.from_numpy(x)).detach().numpy(), expected, rtol=0, atol=1e-12)


def test_over_both_sides_dropped_tokens_are_as_if_never_written() -> None:
    mixing = around()
    x = torch.randn(2, 9, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    keep = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 0, 0, 0]]).bool()
    y = mixing(torch.where(keep[:, :, None], x, torch.nan), keep)
    for row, kept, out in zip(x, keep, y, strict=True):
        torch.testing.assert_close(out[kept], mixing(row[kept][None])[0], rtol=0, atol=1e-12)
        assert not out[~kept].any()


@pytest.mark.parametrize("T", [1, 2, 5])
def test_the_price_of_separable_is_the_count(T: int) -> None:
    from seqloom.ops.backends import use

    x = torch.randn(1, T, DIM, dtype=torch.float64)
    with torch.no_grad(), use(lag_sum="reference", projection="reference"):
        for mixing in (make(), around()):
            counted, price = count(lambda mixing=mixing: mixing(x)), mixing.cost(T)
            for name in ("mul", "add", "div", "exp", "other"):
                assert getattr(counted, name) == getattr(price, name), (name, mixing.causal)
