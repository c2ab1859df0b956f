"""Derivatives against differences, and the smaller number types against float64."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.core.mixer import Mixer
from seqloom.ops.backends import use
from tests.contract.cases import (
    DIM,
    Make,
    close,
    draw,
    every_lag_sum,
    every_mixer,
    every_mixer_in_time,
    fits,
    leaves,
    streams,
    ways,
)

HALF, SINGLE = 2e-2, 1e-5
"""the stated bounds of bfloat16 and float32: root mean square of the error over that of the output"""


def functions(mixer: Mixer, make: Make, T: int) -> Iterator[tuple[Callable[..., Tensor], tuple[Tensor, ...]]]:
    """forward, and extend with an extend before it, as functions of the input and of every parameter."""
    parameters = leaves(mixer)
    x = draw(2, T, DIM).requires_grad_()

    def forward(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(mixer, dict(zip(parameters, values, strict=True)), (x,))

    yield forward, (x, *parameters.values())
    if streams(make):
        whole = Pieces(mixer)

        def pieces(x: Tensor, *values: Tensor) -> Tensor:
            named = {f"mixer.{name}": value for name, value in zip(parameters, values, strict=True)}
            return torch.func.functional_call(whole, named, (x,))

        yield pieces, (x, *parameters.values())


class Pieces(torch.nn.Module):
    """The first two tokens as one piece and the rest as another."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor) -> Tensor:
        first, state = self.mixer.extend(x[:, :2], self.mixer.start(len(x)))
        return torch.cat([first, self.mixer.extend(x[:, 2:], state)[0]], 1)


def check_derivatives(make: Make) -> None:
    """Promise 8, in random directions: first derivatives right, second ones right or refused, under each backend."""
    mixer = make(context=3)
    T = fits(mixer, 5)
    for op, backend in [("", ""), *ways(mixer, draw(1, T, DIM))]:
        with use(**({op: backend} if op else {})):
            for function, inputs in functions(mixer, lambda: mixer, T):
                assert gradcheck(function, inputs, fast_mode=True, atol=1e-7, rtol=1e-6)
                try:
                    assert gradgradcheck(function, inputs, fast_mode=True, atol=1e-7, rtol=1e-6)
                except RuntimeError as error:
                    if "not implemented" not in str(error):
                        raise


def rms(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


def check_small_numbers(make: Make) -> None:
    """Promise 9: forward, extend and step in bfloat16 and float32 against float64 with the same rounded weights."""
    for dtype, bound in ((torch.bfloat16, HALF), (torch.float32, SINGLE)):
        for context, T, forced in ((5, 9, {}), (16, 21, {"lag_sum": "fft"})):
            with use(**forced), torch.no_grad():
                rounds_within(bound, make(context=context, dtype=dtype), make(context=context), T)


def rounds_within(bound: float, small: Mixer, exact: Mixer, T: int) -> None:
    dtype = small.dtype
    for name, parameter in small.named_parameters():
        exact.get_parameter(name).copy_(parameter.double())
    T = fits(exact, T)
    x = draw(4, T, DIM, dtype=dtype)
    wanted = exact(x.double())
    y = small(x)
    assert y.dtype == dtype, f"{dtype} in, {y.dtype} out"
    assert rms(y, wanted) <= bound, f"forward is off by {rms(y, wanted):.3g}, allowed {bound}"
    if not streams(lambda: exact):
        return
    first, state = small.extend(x[:, :3], small.start(4))
    outputs = [first]
    for place in range(3, T):
        token, state = small.step(x[:, place], state, reuse=place % 2 == 0)
        outputs.append(token[:, None])
    y = torch.cat(outputs, 1)
    assert y.dtype == dtype, f"{dtype} in, {y.dtype} out"
    assert rms(y, wanted) <= bound, f"extend and step are off by {rms(y, wanted):.3g}, allowed {bound}"
    held = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    assert held <= {dtype, torch.float32}, f"the state is held in {held}"


@every_mixer_in_time
def test_derivatives(make: Make) -> None:
    check_derivatives(make)


@every_lag_sum
@pytest.mark.parametrize("backend", ["direct", "fft", "reference"])
def test_second_derivatives_of_the_lag_sum_are_not_refused(make: Make, backend: str) -> None:
    mixer = make(context=3)
    T = fits(mixer, 5)
    with use(lag_sum=backend):
        for function, inputs in functions(mixer, lambda: mixer, T):
            assert gradgradcheck(function, inputs, fast_mode=True)


@every_mixer
def test_small_number_types(make: Make) -> None:
    check_small_numbers(make)


def test_close_sees_nan_and_shape() -> None:
    with pytest.raises(AssertionError):
        close(torch.tensor([float("nan")]), torch.tensor([0.0]))
    with pytest.raises(AssertionError):
        close(torch.zeros(1, 2), torch.zeros(2))
