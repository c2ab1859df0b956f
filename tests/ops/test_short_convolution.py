"""The short convolution before a sum over time: its equation, after earlier inputs, with both derivatives."""

import math

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.core.state import measure_length
from seqloom.ops import backends
from seqloom.ops import native as code
from seqloom.ops.fused.short_convolution import convolve, native, window_after
from seqloom.ops.fused.short_convolution.token import convolve_token
from seqloom.ops.lag_sum import lags
from tests.ops.needing import needs_native


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("before", [False, True], ids=["from nothing", "after a window"])
@pytest.mark.parametrize(("T", "W"), [(1, 1), (1, 4), (7, 1), (7, 4), (3, 40), (33, 4)])
def test_short_convolution_is_its_equation(T: int, W: int, before: bool) -> None:
    x, taps, bias, window = numbers(2, T, 3), numbers(W, 3), numbers(3), numbers(2, W - 1, 3, seed=1)
    result = convolve(x, taps, bias, window if before else None)
    for b in range(2):
        for c in range(3):
            past = [float(each) for each in window[b, :, c]] if before else [0.0] * (W - 1)
            read = past + [float(each) for each in x[b, :, c]]
            for t in range(T):
                s = float(bias[c]) + sum(float(taps[k, c]) * read[W - 1 + t - k] for k in range(W))
                assert math.isclose(float(result[b, t, c]), s / (1 + math.exp(-s)), rel_tol=1e-10, abs_tol=1e-12)


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 4, 3)])
def test_nothing_to_read(shape: tuple[int, ...]) -> None:
    assert convolve(numbers(*shape), numbers(4, 3), numbers(3)).shape == shape


@pytest.mark.slow
def test_both_derivatives_of_short_convolution() -> None:
    given = [each.requires_grad_() for each in (numbers(2, 5, 3), numbers(4, 3), numbers(3), numbers(2, 3, 3, seed=1))]
    assert gradcheck(convolve, given, fast_mode=True)
    assert gradgradcheck(convolve, given, fast_mode=True)


def test_the_window_after_rows_of_different_lengths() -> None:
    x, window = numbers(3, 5, 2), numbers(3, 2, 2, seed=1)
    after = window_after(x, window, torch.tensor([0, 1, 5]))
    assert after[0].equal(window[0])
    assert after[1].equal(torch.stack([window[1, 1], x[1, 0]]))
    assert after[2].equal(x[2, 3:])
    assert window_after(x, window)[0].equal(x[0, 3:])
    assert window_after(x[:, :1], window).equal(window_after(x, window, torch.ones(3, dtype=torch.long)))


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
def test_the_c_of_short_convolution_is_the_reference(sizes: tuple[int, int, int, int], silu: bool, after: bool) -> None:
    for dtype, bound in ((torch.float64, 1e-11), (torch.float32, 1e-3)):
        wanted = computed("reference", sizes, silu, after, torch.float64)
        for a, b in zip(computed("native", sizes, silu, after, dtype), wanted, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound)


@needs_native
def test_c_refuses_sizes_that_do_not_agree() -> None:
    x, taps = numbers(2, 5, 3), numbers(4, 3)
    for wrong, says in (((x, taps[:, :2], None, None), "taps must be"), ((x, taps, None, x[:, :2]), "window must be")):
        with pytest.raises(ValueError, match=says):
            native.convolve(*wrong, True)


@needs_native
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_of_parameters_and_the_lag_sum_do_not_depend_on_threads(dtype: torch.dtype) -> None:
    x, taps, bias = (numbers(*sizes).to(dtype) for sizes in ((2, 300, 150), (4, 150), (150,)))
    parameters, results, before = [taps.requires_grad_(), bias.requires_grad_()], [], torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            y, summed = convolve(x, taps, bias), lags(x, taps)  # without its silu, which is torch's and may round
            results.append([summed.detach(), *torch.autograd.grad(y.square().sum(), parameters)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("D", "W"), [(5, 4), (40, 2), (17, 1)])
def test_one_token_is_a_sequence_of_one(D: int, W: int, dtype: torch.dtype, with_bias: bool) -> None:
    x, window, taps, bias = (numbers(*sizes).to(dtype) for sizes in ((3, 1, D), (3, W - 1, D), (W, D), (D,)))
    bias = bias if with_bias else None
    length, ones = measure_length(torch.full((3,), 9)), torch.ones(3, dtype=torch.long)
    given = window.clone()
    y, after = convolve_token(x[:, 0], taps, bias, given, length)
    torch.testing.assert_close(y, convolve(x, taps, bias, window)[:, 0])
    assert torch.equal(after, window_after(x, window, ones))
    assert torch.equal(given, window)


@needs_native
def test_a_window_of_another_size_is_an_error() -> None:
    """The C would read behind its end."""
    x, taps, bias, small = numbers(2, 1, 4), numbers(4, 4), numbers(4), numbers(2, 2, 4)
    for call in (
        lambda: convolve_token(x[:, 0], taps, bias, small, measure_length(torch.zeros(2).long())),
        lambda: convolve(x, taps, bias, small),
    ):
        with pytest.raises((ValueError, TypeCheckError), match=r"window must be|Type-check"):
            call()


@needs_native
def test_without_native_code_another_backend_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    code.forget()
    try:
        with backends.record_backends() as ran:
            convolve(numbers(2, 6, 4), numbers(4, 4), numbers(4))
        assert ran["short_convolution"] == ["lagged"]
    finally:
        monkeypatch.undo()
        code.forget()
