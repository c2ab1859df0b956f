"""Derivatives against finite differences, and the smaller dtypes against float64."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.analysis.rounding import errors, worst
from seqloom.contracts.numbers import TOKENS, bfloat16
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import Rounding
from seqloom.mixers import mixer_config
from seqloom.ops.backends import use
from seqloom.ops.bucketing import choices
from tests.contract.broken_numbers import RoundsInside
from tests.contract.cases import (
    DIM,
    Case,
    Make,
    close,
    draw,
    every_kind,
    every_kind_in_one_form,
    every_mixer,
    fits,
    holds,
    leaves,
    streams,
    sums_lags,
    ways,
)
from tests.contract.sound import Average

HALF, SINGLE = 2e-2, 1e-5
"""the stated bounds of bfloat16 and float32: root mean square of the error over that of the output"""
STEP = 1e-6
"""the step of a finite difference"""


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
    """Promise 8, in one random direction of all inputs at once: first derivatives are right under each backend."""
    for function, inputs in under_each_backend(make):
        directions = [draw(*tensor.shape, seed=seed) for seed, tensor in enumerate(inputs, 1)]
        with choices.record_choices() as made:
            y = function(*inputs)
        weights = draw(*y.shape)
        slopes = torch.autograd.grad(y, inputs, weights, allow_unused=True, materialize_grads=True)
        actual = sum(float((slope * way).sum()) for slope, way in zip(slopes, directions, strict=True))
        with torch.no_grad():
            after, before = (
                held(function, made)(*(x + step * way for x, way in zip(inputs, directions, strict=True)))
                for step in (STEP, -STEP)
            )
        expected = float(((after - before) * weights).sum()) / (2 * STEP)
        scale = max(1.0, *(abs(float((slope * way).sum())) for slope, way in zip(slopes, directions, strict=True)))
        assert abs(actual - expected) <= 1e-6 * scale, f"the slope is {actual:.9g}, by differences {expected:.9g}"


def check_second_derivatives(make: Make) -> None:
    """Promise 8, for each input alone: first derivatives are right, and second ones are right or refused."""
    for changing, inputs in under_each_backend(make):
        with choices.record_choices() as made:
            changing(*inputs)
        function = held(changing, made)
        assert gradcheck(function, inputs, fast_mode=True, atol=1e-7, rtol=1e-6)
        try:
            assert gradgradcheck(function, inputs, fast_mode=True, atol=1e-7, rtol=1e-6)
        except RuntimeError as error:
            if "not implemented" not in str(error):
                raise


def held(function: Callable[..., Tensor], made: list[Any]) -> Callable[..., Tensor]:
    """The function with its choices, and what it reads without gradients, as they were."""

    def run(*inputs: Tensor) -> Tensor:
        with choices.fix_choices(made):
            return function(*inputs)

    return run


def under_each_backend(make: Make) -> Iterator[tuple[Callable[..., Tensor], tuple[Tensor, ...]]]:
    """The `functions` of a mixer with each of its backends forced; as it comes where it has none."""
    mixer = make(context=3)
    T = fits(mixer, 5)
    for op, backend in ways(mixer, draw(1, T, DIM)) or [("", "")]:
        with use(**({op: backend} if op else {})):
            yield from functions(mixer, lambda: mixer, T)


def rms(actual: Tensor, expected: Tensor) -> float:
    return float((actual.double() - expected).norm() / expected.norm())


def check_small_numbers(make: Make) -> None:
    """Promise 9: forward, extend and step in bfloat16 and float32 against float64 with the same rounded weights."""
    for dtype, bound in ((torch.bfloat16, HALF), (torch.float32, SINGLE)):
        for context, T, forced in ((5, 9, {}), (16, 21, {"lag_sum": "fft"})):
            with use(**forced), torch.no_grad():
                rounds_within(bound, make(context=context, dtype=dtype), make(context=context), T)


def check_long_rows_in_bfloat16(make: Make) -> None:
    """Promise 9: forward in bfloat16 of rows whose sums over all tokens are rounded like long ones."""
    holds(bfloat16, make, contexts=(TOKENS,))


def rounds_within(bound: float, small: Mixer, exact: Mixer, T: int) -> None:
    dtype = small.dtype
    for name, parameter in small.named_parameters():
        exact.get_parameter(name).copy_(parameter.double())
    T = fits(exact, T)
    x = draw(4, T, DIM, dtype=dtype)
    with choices.record_choices() as made:
        expected = exact(x.double())
    with choices.fix_choices(made):  # one bucket or another is no matter of rounding
        y = small(x)
    assert y.dtype == dtype, f"{dtype} in, {y.dtype} out"
    assert rms(y, expected) <= bound, f"forward is off by {rms(y, expected):.3g}, allowed {bound}"
    if not streams(lambda: exact):
        return
    first, state = small.extend(x[:, :3], small.start(4))
    outputs = [first]
    for position in range(3, T):
        token, state = small.step(x[:, position], state, reuse=position % 2 == 0)
        outputs.append(token[:, None])
    y = torch.cat(outputs, 1)
    assert y.dtype == dtype, f"{dtype} in, {y.dtype} out"
    assert rms(y, expected) <= bound, f"extend and step are off by {rms(y, expected):.3g}, allowed {bound}"
    held = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    assert held <= {dtype, torch.float32}, f"the state is held in {held}"


def rounds_as_stated(case: Case, dim: int, T: int) -> None:
    """Promise 9, as it begins: outputs and gradients in float32 are within the stated bound of those in float64."""
    config = mixer_config({"kind": case.kind, **dict(case.example)})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = config.build(dim, T, case.causal)
    error, of = worst(mixer, T)
    assert error <= config.rounding.eps, f"{of} is off by {error:.3g} eps, allowed {config.rounding.eps}"


@every_kind_in_one_form
def test_derivatives(make: Make) -> None:
    check_derivatives(make)


@pytest.mark.slow
@every_mixer
def test_second_derivatives(make: Make) -> None:
    check_second_derivatives(make)


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("backend", ["direct", "fft", "reference"])
def test_second_derivatives_of_the_lag_sum_are_not_refused(make: Make, backend: str) -> None:
    if not sums_lags(make):
        pytest.skip("not built on the lag sum")
    mixer = make(context=3)
    T = fits(mixer, 5)
    with use(lag_sum=backend):
        for function, inputs in functions(mixer, lambda: mixer, T):
            assert gradgradcheck(function, inputs, fast_mode=True)


@every_mixer
def test_small_number_types(make: Make) -> None:
    check_small_numbers(make)


@every_mixer
def test_bfloat16_of_long_rows(make: Make) -> None:
    check_long_rows_in_bfloat16(make)


@every_kind
def test_float32_is_within_the_stated_bound(make: Case) -> None:
    rounds_as_stated(make, DIM, 128)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [8, 64])
@every_mixer
def test_float32_is_within_the_stated_bound_at_4096_tokens(make: Case, dim: int) -> None:
    rounds_as_stated(make, dim, 4096)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "ssm", "measure": "legt", "method": "zoh"},
        {"kind": "lssl", "measure": "legt"},
        {"kind": "hyena", "filter_dim": 16},
    ],
    ids=lambda settings: settings["kind"],
)
def test_what_is_worked_out_in_float64_leaves_float32_little_to_round(settings: dict[str, Any]) -> None:
    """Powers and exponentials of near-identities, and filters of sines of sines: in float32 all exceed this bound."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = mixer_config(settings).build(DIM, 512)
    error, of = worst(mixer, 512)
    assert error <= 30, f"{of} is off by {error:.3g} eps"


def test_rounding_sees_outputs_gradients_and_nan() -> None:
    assert errors(Average(), 128).keys() == {"output", "input", "w.weight"}
    assert worst(Average(), 128)[0] <= Rounding().eps
    assert worst(RoundsInside(), 128)[0] > 100 * Rounding().eps
    backward = Average()
    backward.w.weight.register_hook(lambda slope: slope * (1 + 1e-4 * (slope.dtype == torch.float32)))
    assert worst(backward, 128)[1] == "w.weight"
    with torch.no_grad():
        backward.w.weight[0, 0] = torch.nan
    assert math.isnan(worst(backward, 128)[0])


def test_close_sees_nan_and_shape() -> None:
    with pytest.raises(AssertionError):
        close(torch.tensor([float("nan")]), torch.tensor([0.0]))
    with pytest.raises(AssertionError):
        close(torch.zeros(1, 2), torch.zeros(2))
