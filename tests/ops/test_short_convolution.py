"""The short convolution before a selective scan: its equation, after inputs that went before, with both derivatives."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.ops.selective_scan.convolution import convolve, moved


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("before", [False, True], ids=["from nothing", "after a window"])
@pytest.mark.parametrize(("T", "W"), [(1, 1), (1, 4), (7, 1), (7, 4), (3, 40), (33, 4)])
def test_it_is_the_equation(T: int, W: int, before: bool) -> None:
    x, taps, bias, window = numbers(2, T, 3), numbers(W, 3), numbers(3), numbers(2, W - 1, 3, seed=1)
    result = convolve(x, taps, bias, window if before else None)
    for b in range(2):
        for c in range(3):
            past = [float(each) for each in window[b, :, c]] if before else [0.0] * (W - 1)
            read = past + [float(each) for each in x[b, :, c]]
            for t in range(T):
                s = float(bias[c]) + sum(float(taps[k, c]) * read[W - 1 + t - k] for k in range(W))
                assert math.isclose(float(result[b, t, c]), s / (1 + math.exp(-s)), rel_tol=1e-10, abs_tol=1e-12)


def test_derivatives() -> None:
    given = [each.requires_grad_() for each in (numbers(2, 5, 3), numbers(4, 3), numbers(3), numbers(2, 3, 3, seed=1))]
    assert gradcheck(convolve, given, fast_mode=True)
    assert gradgradcheck(convolve, given, fast_mode=True)


def test_the_window_after_rows_of_different_lengths() -> None:
    x, window = numbers(3, 5, 2), numbers(3, 2, 2, seed=1)
    after = moved(x, window, torch.tensor([0, 1, 5]))
    assert after[0].equal(window[0])
    assert after[1].equal(torch.stack([window[1, 1], x[1, 0]]))
    assert after[2].equal(x[2, 3:])
    assert moved(x, window)[0].equal(x[0, 3:])
    assert moved(x[:, :1], window).equal(moved(x, window, torch.ones(3, dtype=torch.long)))
