"""The short convolution before a selective scan: its equation, after earlier inputs, with both derivatives."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.ops import backends
from seqloom.ops.selective_scan import convolved
from seqloom.ops.selective_scan.convolution import convolve, moved
from tests.ops.needing import needs_native


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


def computed(
    backend: str, sizes: tuple[int, int, int, int], silu: bool, after: bool, dtype: torch.dtype
) -> list[Tensor]:
    """The output, and the gradients of all that is given; x with gaps between its tokens."""
    B, T, D, W = sizes
    wide, taps = numbers(B, T, D + 3).requires_grad_(), numbers(W, D).requires_grad_()
    bias, window = (numbers(D).requires_grad_(), numbers(B, W - 1, D).requires_grad_()) if after else (None, None)
    given = [each for each in (wide, taps, bias, window) if each is not None]
    x, *rest = (None if each is None else each.to(dtype) for each in (wide, taps, bias, window))
    with backends.use(short_convolution=backend):
        y = convolve(x[..., :D], *rest, silu=silu)
    total = (y * numbers(B, T, D, seed=2)).sum()
    return [y, *torch.autograd.grad(total, given, allow_unused=True, materialize_grads=True)]  # no window of one tap


@needs_native
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (2, 5, 3, 2), (2, 3, 17, 5), (1, 260, 9, 4), (3, 130, 20, 3), (2, 2, 4, 4)]
)
def test_c_is_the_reference(sizes: tuple[int, int, int, int], silu: bool, after: bool) -> None:
    for dtype, bound in ((torch.float64, 1e-11), (torch.float32, 1e-3)):
        wanted = computed("reference", sizes, silu, after, torch.float64)
        for a, b in zip(computed("native", sizes, silu, after, dtype), wanted, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound)


@needs_native
def test_the_number_of_threads_changes_no_bit() -> None:
    found, before = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(computed("native", (3, 300, 100, 4), True, True, torch.float32))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@needs_native
def test_c_refuses_sizes_that_do_not_agree() -> None:
    x, taps = numbers(2, 5, 3), numbers(4, 3)
    for wrong, says in (((x, taps[:, :2], None, None), "taps must be"), ((x, taps, None, x[:, :2]), "window must be")):
        with pytest.raises(ValueError, match=says):
            convolved.convolve(*wrong, silu=True)
