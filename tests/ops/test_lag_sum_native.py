"""The lag sum in C: many channels and blocks, any memory layout and number of threads, and inside torch's graphs."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.counting.count import Executed, count
from seqloom.ops import backends
from seqloom.ops.lag_sum import lags, native
from seqloom.ops.native import NativeFunction
from tests.ops.needing import needs_native
from tests.ops.test_lag_sum import numbers

pytestmark = needs_native


def inputs(B: int, T: int, D: int, L: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [each.to(dtype).requires_grad_() for each in (numbers(B, T, D), numbers(L, D, seed=1) / L**0.5)]


def all_of_it(backend: str, leaves: list[Tensor], run: Callable[..., Tensor] = lags) -> list[Tensor]:
    """Outputs and gradients of everything."""
    with backends.use(lag_sum=backend):
        y = run(*leaves)
    given = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y.detach(), *torch.autograd.grad(y, leaves, given)]


@pytest.mark.parametrize(
    ("B", "T", "D", "L"),
    [(3, 21, 1, 4), (2, 30, 7, 40), (9, 130, 16, 3), (2, 13, 33, 14), (1, 290, 40, 129), (2, 600, 17, 600)],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_any_number_of_channels_positions_and_lags(dtype: torch.dtype, B: int, T: int, D: int, L: int) -> None:
    """Whole vectors and blocks, what is left of them, and more rows than parts."""
    leaves = inputs(B, T, D, L, dtype)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    for actual, expected in zip(all_of_it("native", leaves), all_of_it("fft", exact), strict=True):
        eps = 1e-5 if dtype == torch.float32 else 1e-12
        assert float((actual.double() - expected).norm() / expected.norm()) < eps


def test_lag_sum_native_of_any_layout_in_memory() -> None:
    x, w = (each.detach() for each in inputs(2, 9, 6, 4))
    with backends.use(lag_sum="native"):
        expected = lags(x, w)
        assert torch.equal(lags(x.mT.contiguous().mT, w.mT.contiguous().mT), expected)
        assert torch.equal(lags(torch.stack([x, x], 1)[:, 1], torch.cat([w, w], 1)[:, :6]), expected)
        one = torch.ones(1, 1, 1, dtype=torch.float64)
        counted = torch.arange(1.0, 10, dtype=torch.float64).clamp_max(4)[:, None]
        assert torch.equal(lags(one.expand(2, 9, 6), one[0].expand(4, 6)), counted.expand(2, 9, 6))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("position", [0, 5, 17, 18])
def test_what_is_not_a_number_in_lag_sum_native_stays_in_its_channel_and_after_it(bad: float, position: int) -> None:
    x, w = (each.detach() for each in inputs(1, 19, 40, 4))
    spoilt = x.clone()
    spoilt[0, position, 17] = bad
    with backends.use(lag_sum="native"):
        y = lags(spoilt, w)
        changed = y != lags(x, w)
    assert changed[0, position : position + 4, 17].all()
    assert changed.sum() == min(4, 19 - position)
    assert not y[changed].isfinite().any()


def test_long_sums_of_large_numbers() -> None:
    """16,384 inputs to 10,000 in float32, and their gradients: finite, and as in float64."""
    x, w = 1e4 * numbers(1, 16_384, 3), numbers(2048, 3, seed=1)
    exact = all_of_it("fft", [each.requires_grad_() for each in (x, w)])
    for actual, expected in zip(
        all_of_it("native", [each.detach().float().requires_grad_() for each in (x, w)]), exact, strict=True
    ):
        assert float((actual.double() - expected).norm() / expected.norm()) < 2e-6


@pytest.mark.slow
def test_third_derivatives() -> None:
    x, w = inputs(2, 6, 3, 4)

    def slope(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        with backends.use(lag_sum="native"):
            return torch.autograd.grad(lags(x, w).pow(3).sum(), (x, w), create_graph=True)

    assert torch.autograd.gradcheck(slope, (x, w), fast_mode=True)
    assert torch.autograd.gradgradcheck(slope, (x, w), fast_mode=True)


def test_it_has_a_price() -> None:
    """12 positions, 4 lags: 4 · 12 - 6 products, which each position sums."""
    x, w = (each.detach() for each in inputs(2, 12, 5, 4))
    with backends.use(lag_sum="native"):
        assert count(lambda: lags(x, w)) == Executed(mul=10 * 42, add=10 * 30)


@pytest.mark.slow
@pytest.mark.graph
def test_torch_holds_the_operators_of_lag_sum_native_sound() -> None:
    x, w = inputs(2, 5, 3, 4)
    torch.library.opcheck(native.forward.operator, (x, w))
    for to_x, to_w in ((True, True), (True, False), (False, True)):
        torch.library.opcheck(native.backward.operator, (x, w, numbers(2, 5, 3, seed=2).requires_grad_(), to_x, to_w))


@pytest.mark.slow
@pytest.mark.graph
def test_lag_sum_native_compiled_whole_with_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, ran = inputs(2, 12, 5, 4), []
    expected = all_of_it("native", leaves)
    called = NativeFunction.__call__
    monkeypatch.setattr(NativeFunction, "__call__", lambda of, *x, **n: (ran.append(of.name), called(of, *x, **n))[1])
    torch._dynamo.reset()
    for dynamic in (False, True):
        actual = all_of_it("native", leaves, torch.compile(lags, fullgraph=True, backend="aot_eager", dynamic=dynamic))
        for a, b in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, b)
        assert ran == ["forward", "backward"]
        ran.clear()


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize(("forced", "inside"), [({}, False), ({"lag_sum": "native"}, True)])
def test_an_exported_lag_sum_native_needs_no_native_code_unless_asked(forced: dict[str, str], inside: bool) -> None:
    class Sum(torch.nn.Module):
        def forward(self, x: Tensor, w: Tensor) -> Tensor:
            return lags(x, w)

    x, w = (each.detach() for each in inputs(2, 20, 5, 12))
    with torch.no_grad(), backends.use(**forced):
        program = torch.export.export(Sum(), (x, w))
        assert ("lag_sum_forward" in program.graph_module.code) is inside
        torch.testing.assert_close(program.module()(-x, w), lags(-x, w))


def test_without_native_code_of_lag_sum_native_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.ops import native as code

    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    code.forget()
    try:
        x, w = (each.detach() for each in inputs(2, 20, 5, 12))
        with backends.record_backends() as ran:
            lags(x, w)
            lags(x, w[:, 0])
        assert set(ran["lag_sum"]) <= {"direct", "fft", "divide_and_conquer", "toeplitz"}
        with backends.use(lag_sum="native"), pytest.raises(ValueError, match="not available here: SEQLOOM_NATIVE=0"):
            lags(x, w)
    finally:
        monkeypatch.undo()
        code.forget()
