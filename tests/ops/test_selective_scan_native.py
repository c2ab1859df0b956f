"""The selective scan in C: many channels and states, any memory layout and number of threads, inside torch's graphs."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqloom.ops import backends
from seqloom.ops import native as code
from seqloom.ops.native import NativeFunction
from seqloom.ops.scan.selective_scan import kernels, native, selective
from tests.ops.needing import needs_native
from tests.ops.test_selective_scan import inputs

pytestmark = needs_native


def all_of_it(backend: str, given: dict[str, Tensor], run=selective, lengths: Tensor | None = None) -> list[Tensor]:
    """Outputs, state and gradients of everything."""
    leaves = {name: each.detach().clone().requires_grad_() for name, each in given.items()}
    with backends.use(selective_scan=backend):
        y, after = run(**leaves, lengths=lengths)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    loss = (y * weights).sum() + after.square().sum()
    return [y.detach(), after.detach(), *torch.autograd.grad(loss, list(leaves.values()))]


@pytest.mark.parametrize(("D", "N"), [(1, 1), (7, 16), (16, 3), (33, 17), (150, 2), (64, 40)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("whole", [True, False])
def test_any_number_of_channels_and_states(D: int, N: int, dtype: torch.dtype, whole: bool) -> None:
    """Whole vectors, what is left of them, more than one task takes, and more than one chunk."""
    given, lengths = inputs(3, 69, D, N, whole), torch.tensor([69, 40, 0])
    small = {name: each.to(dtype) for name, each in given.items()}
    exact = {name: each.double() for name, each in small.items()}
    bound = 2e4 * torch.finfo(dtype).eps
    for until in (None, lengths):
        for actual, expected in zip(
            all_of_it("native", small, lengths=until), all_of_it("sequential", exact, lengths=until), strict=True
        ):
            scale = float(expected.abs().max())
            torch.testing.assert_close(actual.double(), expected, rtol=bound, atol=bound * max(1.0, scale) / 50)


def test_selective_scan_native_of_any_layout_in_memory() -> None:
    given = inputs(2, 9, 6, 4, True)
    wide = torch.cat([given["u"], given["gate"]], 2)
    both = torch.cat([given["B"], given["C"]], 2).transpose(0, 1).contiguous().transpose(0, 1)
    odd = {**given, "u": wide[..., :6], "gate": wide[..., 6:], "B": both[..., :4], "C": both[..., 4:]}
    odd["delta"] = given["delta"].mT.contiguous().mT
    odd["log_rate"], odd["state"] = given["log_rate"].T.contiguous().T, given["state"].mT.contiguous().mT
    with backends.use(selective_scan="native"):
        for a, b in zip(selective(**odd), selective(**given), strict=True):
            assert torch.equal(a, b)
        ones = torch.ones(1, 1, 1, dtype=torch.float64)
        y, _ = selective(*(ones.expand(2, 9, 6),) * 2, torch.zeros(6, 4).double(), *(ones.expand(2, 9, 4),) * 2)
    torch.testing.assert_close(y[:, 0], torch.full((2, 6), 4.0).double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_its_own_exponentials_and_softplus(dtype: torch.dtype) -> None:
    """One token of u = B = C = 1 gives softplus(delta), a state of 1 decays by e^-Δ, and a gate is silu."""
    a = torch.cat([torch.linspace(-100, 100, 4001), torch.tensor([0.0, 1e-30, 700, -700, 1e30, -1e30])]).to(dtype)
    one, n = torch.ones(1, 1, len(a), dtype=dtype), len(a)
    zero, weight = torch.zeros(n, dtype=dtype), torch.ones(1, 1, 1, dtype=dtype)
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    x, rate = a.double(), torch.zeros(n, 1, dtype=dtype)
    with backends.use(selective_scan="native"):
        soft, _ = selective(one, a[None, None], rate, weight, weight, bias=zero)
        _, left = selective(0 * one, a.abs()[None, None], rate, weight, weight, torch.ones(1, n, 1, dtype=dtype))
        gated, _ = selective(one, one, rate, weight, weight, gate=a[None, None])
    for actual, expected in (
        (soft[0, 0], torch.logaddexp(x, 0 * x)),
        (left[0, :, 0], (-x.abs()).exp()),
        (gated[0, 0], x * torch.sigmoid(x)),
    ):
        gap = (actual.double() - expected).abs()  # a power is known as well as its exponent
        assert bool((gap <= eps * (4 + x.abs()) * expected.abs() + 2e30 * tiny * (x.abs() > 1e3) + 200 * tiny).all())


def test_what_is_not_a_number_in_selective_scan_native_stays_in_its_channel_and_after_it() -> None:
    given = {name: each.float() for name, each in inputs(1, 40, 40, 4, True).items()}
    with backends.use(selective_scan="native"):
        clean, _ = selective(**given)
        for name in ("u", "delta"):
            for bad in (math.nan, math.inf if name == "u" else math.nan):
                spoilt = given[name].clone()
                spoilt[0, 35, 17] = bad
                changed = selective(**{**given, name: spoilt})[0] != clean
                assert changed[0, 35:, 17].all()
                assert changed.sum() == 5


def test_forward_mode_raises_an_error_where_c_is_forced() -> None:
    given = inputs(1, 3, 4, 2, True)
    with forward_ad.dual_level():
        given["u"] = forward_ad.make_dual(given["u"], given["u"])
        with (
            backends.use(selective_scan="native"),
            pytest.raises(ValueError, match="'native' of selective_scan has no"),
        ):
            selective(**given)


@pytest.mark.parametrize("whole", [True, False])
def test_a_graph_knows_the_shapes_of_its_gradients(whole: bool) -> None:
    given = list(inputs(2, 5, 3, 2, whole).values())
    given += [None] * (9 - len(given))
    y, _, marks = native.forward(*given, None, True)
    arguments = (*given, None, marks, torch.ones_like(y), None)
    torch.library.opcheck(native.forward.backward.operator, arguments, test_utils="test_faketensor")


@pytest.mark.slow
@pytest.mark.graph
def test_torch_holds_the_operators_of_selective_scan_native_sound() -> None:
    for whole in (True, False):
        given = [each.requires_grad_() for each in inputs(2, 5, 3, 2, whole).values()]
        given += [None] * (9 - len(given))
        for lengths in (None, torch.tensor([3, 5])):
            torch.library.opcheck(native.forward.operator, (*given, lengths, True))
            marks = native.forward(*given, lengths, True)[2]
            plain = [None if each is None else each.detach() for each in given]
            torch.library.opcheck(native.forward.backward.operator, (*plain, lengths, marks.detach(), plain[0], None))


@pytest.mark.slow
@pytest.mark.graph
def test_selective_scan_native_compiled_whole_with_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    given, ran = inputs(2, 12, 5, 3, True), []
    expected = all_of_it("native", given)
    called = NativeFunction.__call__
    monkeypatch.setattr(NativeFunction, "__call__", lambda of, *x, **n: (ran.append(of.name), called(of, *x, **n))[1])
    torch._dynamo.reset()
    for dynamic in (False, True):
        run = torch.compile(selective, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for a, b in zip(all_of_it("native", given, run), expected, strict=True):
            torch.testing.assert_close(a, b)
        assert ran == ["forward", "backward"]
        ran.clear()


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize(("forced", "inside"), [({}, False), ({"selective_scan": "native"}, True)])
def test_an_exported_selective_scan_native_needs_no_native_code_unless_asked(
    forced: dict[str, str], inside: bool
) -> None:
    given = inputs(2, 6, 4, 3, True)
    rest = {name: each for name, each in given.items() if name not in ("u", "delta")}

    class Scan(torch.nn.Module):
        def forward(self, u: Tensor, delta: Tensor) -> Tensor:
            return selective(u, delta, **rest)[0]

    u, delta = given["u"], given["delta"]
    with torch.no_grad(), backends.use(**forced):
        program = torch.export.export(Scan(), (u, delta))
        assert ("selective_forward" in program.graph_module.code) is inside
        torch.testing.assert_close(program.module()(delta, u), Scan()(delta, u))


def test_without_native_code_of_selective_scan_native_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    code.forget()
    try:
        given = inputs(2, 6, 4, 3, True)
        with backends.record_backends() as ran:
            selective(**given)
        assert ran["selective_scan"] == ["sequential"]
        assert not kernels.KERNEL.available()
        with (
            backends.use(selective_scan="native"),
            pytest.raises(ValueError, match="not available here: SEQLOOM_NATIVE=0"),
        ):
            selective(**given)
    finally:
        monkeypatch.undo()
        code.forget()
