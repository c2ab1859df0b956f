"""The running average in C: many channels, any memory layout and number of threads, and inside torch's graphs."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.native import NativeFunction
from seqloom.ops.wkv_average import empty, native, wkv
from tests.ops.needing import needs_native
from tests.ops.test_wkv_average import numbers

pytestmark = needs_native


def inputs(B: int, T: int, D: int, dtype: torch.dtype) -> list[Tensor]:
    k, v, rate, bonus = numbers(B, T, D) * 3, numbers(B, T, D, seed=1), numbers(D, seed=2) - 1, numbers(D, seed=3)
    return [each.to(dtype).requires_grad_() for each in (k, v, rate, bonus)]


def all_of_it(backend: str, leaves: list[Tensor], run: Callable[..., tuple[Tensor, Tensor]] = wkv) -> list[Tensor]:
    """Outputs, state and gradients of everything."""
    with backends.use(wkv_average=backend):
        y, after = run(*leaves)
    loss = (
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() + after[:, 0].sum() + after[:, 2].sum()
    )
    return [y, after, *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("D", [1, 7, 16, 33, 150, 300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_any_number_of_channels(D: int, dtype: torch.dtype) -> None:
    """Whole vectors, what is left of them, and more than one task takes."""
    leaves = inputs(3, 21, D, dtype)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    for actual, expected in zip(all_of_it("native", leaves), all_of_it("doubling", exact), strict=True):
        torch.testing.assert_close(
            actual.double(), expected, rtol=1e3 * torch.finfo(dtype).eps, atol=1e-12 if dtype == torch.float64 else 1e-4
        )


def test_wkv_average_native_of_any_layout_in_memory() -> None:
    leaves = [each.detach() for each in inputs(2, 9, 6, torch.float64)]
    k, v = (leaf.transpose(0, 1).contiguous().transpose(0, 1) for leaf in leaves[:2])
    wide = torch.stack([leaves[2], leaves[3]], 1)
    with backends.use(wkv_average="native"):
        assert torch.equal(wkv(k, v, wide[:, 0], wide[:, 1])[0], wkv(*leaves)[0])
        one = torch.ones(1, 1, 1, dtype=torch.float64).expand(2, 9, 6)
        torch.testing.assert_close(wkv(one, one)[0], one)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_its_own_exponentials_and_logarithms(dtype: torch.dtype) -> None:
    """Two tokens have weights e^a : 1, so y is a logistic function of a, and the sum of weights ln(1 + e^a)."""
    a = torch.cat([torch.linspace(-100, 100, 4001), torch.tensor([0.0, 1e-30, 700, -700, 1e30, -1e30])]).to(dtype)
    k, v = torch.stack([torch.zeros_like(a), a])[None], torch.stack([torch.zeros_like(a), torch.ones_like(a)])[None]
    with backends.use(wkv_average="native"):
        y, after = wkv(k, v)
    eps = torch.finfo(dtype).eps
    smallest = torch.finfo(dtype).tiny  # what is denormal may be 0
    torch.testing.assert_close(y[0, 1].double(), torch.sigmoid(a.double()), rtol=4 * eps, atol=2 * smallest)
    expected = torch.where(a < 0, a.double().exp().log1p(), a.double() + (-a.double()).exp().log1p())
    torch.testing.assert_close(after[0, 2].double(), expected, rtol=4 * eps, atol=2 * smallest)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_in_wkv_average_native_stays_in_its_channel_and_after_it(bad: float) -> None:
    k, v, rate, bonus = (each.detach() for each in inputs(1, 20, 40, torch.float32))
    with backends.use(wkv_average="native"):
        clean, _ = wkv(k, v, rate, bonus)
        spoilt = v.clone()
        spoilt[0, 5, 17] = bad
        y, _ = wkv(k, spoilt, rate, bonus)
        lost = k.clone()
        lost[0, 5, 17] = math.nan
        other, _ = wkv(lost, v, rate, bonus)
    for each in (y, other):
        changed = each != clean
        assert changed[0, 5:, 17].all()
        assert changed.sum() == 15
        assert not each[0, 5:, 17].isfinite().any()


@pytest.mark.slow
@pytest.mark.graph
def test_torch_holds_the_operators_of_wkv_average_native_sound() -> None:
    k, v, rate, bonus = inputs(2, 5, 3, torch.float64)
    mean, log = (numbers(2, 3, seed=seed).requires_grad_() for seed in (4, 5))
    for w, u in ((rate.detach().exp().requires_grad_(), bonus), (None, None)):
        torch.library.opcheck(native.forward.operator, (k, v, w, u, mean, log))
        saved = native.forward(k, v, w, u, mean, log)
        plain = [None if each is None else each.detach() for each in (k, v, w, u, *saved[1:], v)]
        torch.library.opcheck(native.forward.backward.operator, (*plain, *((None, None) if w is None else plain[4:6])))


@pytest.mark.slow
@pytest.mark.graph
def test_wkv_average_native_compiled_whole_with_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, ran = inputs(2, 12, 5, torch.float64), []
    expected = all_of_it("native", leaves)
    called = NativeFunction.__call__
    monkeypatch.setattr(NativeFunction, "__call__", lambda of, *x, **n: (ran.append(of.name), called(of, *x, **n))[1])
    torch._dynamo.reset()
    for dynamic in (False, True):
        actual = all_of_it("native", leaves, torch.compile(wkv, fullgraph=True, backend="aot_eager", dynamic=dynamic))
        for a, b in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, b)
        assert ran == ["forward", "backward"]
        ran.clear()


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize(("forced", "inside"), [({}, False), ({"wkv_average": "native"}, True)])
def test_an_exported_wkv_average_native_needs_no_native_code_unless_asked(forced: dict[str, str], inside: bool) -> None:
    class Average(torch.nn.Module):
        def forward(self, k: Tensor, v: Tensor) -> Tensor:
            return wkv(k, v)[0]

    k, v = numbers(2, 6, 40), numbers(2, 6, 40, seed=1)
    length = torch.export.Dim("length", min=2, max=64)
    with torch.no_grad(), backends.use(**forced):
        program = torch.export.export(Average(), (k, v), dynamic_shapes=({1: length}, {1: length}) if inside else None)
        assert ("wkv_forward" in program.graph_module.code) is inside
        torch.testing.assert_close(program.module()(v, k), wkv(v, k)[0])
        if inside:
            torch.testing.assert_close(program.module()(v[:, :3], k[:, :3]), wkv(v[:, :3], k[:, :3])[0])


def test_without_native_code_of_wkv_average_native_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.ops import native as code

    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    code.forget()
    try:
        k = numbers(2, 6, 40)
        with backends.record_backends() as ran:
            wkv(k, k)
        assert ran == {"wkv_average": ["doubling"]}
        with (
            backends.use(wkv_average="native"),
            pytest.raises(ValueError, match="not available here: SEQLOOM_NATIVE=0"),
        ):
            wkv(k, k)
    finally:
        monkeypatch.undo()
        code.forget()


def test_a_token_of_keys_of_any_size() -> None:
    for size in (1e4, -1e4):
        state = empty(1, 3, torch.float32)
        for value in (1.0, 2.0, 3.0):
            y, state = wkv(torch.full((1, 1, 3), size), torch.full((1, 1, 3), value), None, None, state)
        torch.testing.assert_close(y, torch.full((1, 1, 3), 2.0), rtol=1e-3, atol=0)
