"""The recurrence of channels in C: many channels, any memory layout, any number of threads, inside torch's graphs."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.counting.count import count
from seqloom.ops import backends
from seqloom.ops.native import NativeFunction
from seqloom.ops.native.entry import is_without_numbers
from seqloom.ops.scan import native, scan
from tests.ops.needing import needs_native
from tests.ops.test_scans import KINDS, numbers
from tests.ops.test_scans import inputs as drawn

pytestmark = needs_native
PLAIN = [kind for kind, (of_a, _, of_b) in KINDS.items() if of_a == of_b]
every_kind = pytest.mark.parametrize("kind", PLAIN)
SINGLE = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@pytest.fixture(autouse=True)
def _threads_as_before() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def inputs(kind: str, B: int, T: int, width: int, single: bool) -> list[Tensor]:
    return [(x.to(SINGLE[x.dtype]) if single else x).requires_grad_() for x in drawn(kind, B, T, width)]


def all_of_it(backend: str, leaves: list[Tensor], run: Callable[..., tuple[Tensor, Tensor]] = scan) -> list[Tensor]:
    """Outputs, state and gradients of everything."""
    with backends.use(scans=backend):
        h, after = run(*leaves)
    weights = torch.linspace(-1, 1, h.numel(), dtype=h.real.dtype).view_as(h)
    loss = (h.real * weights).sum() + (after * after).real.sum()
    if h.is_complex():
        loss = loss + (h.imag * weights.flip(1)).sum()
    return [h, after, *torch.autograd.grad(loss, leaves)]


@every_kind
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("width", [1, 7, 16, 33, 300])
def test_any_number_of_channels(width: int, single: bool, kind: str) -> None:
    """Whole vectors, what is left of them, and more than one task takes."""
    leaves = inputs(kind, 3, 21, width, single)
    wide = [each.detach().to(torch.promote_types(each.dtype, torch.float64)).requires_grad_() for each in leaves]
    bound = 2e-5 if single else 1e-12
    for found, wanted in zip(all_of_it("native", leaves), all_of_it("reference", wide), strict=True):
        torch.testing.assert_close(found.to(wanted.dtype), wanted, rtol=bound, atol=10 * bound)


def test_scans_native_of_any_layout_in_memory() -> None:
    """Strides, and conjugates and signs that torch has not carried out yet."""
    a, b, state = (each.detach() for each in inputs("complex", 2, 9, 6, False))
    with backends.use(scans="native"):
        wanted, _ = scan(a.conj().resolve_conj(), b, state)
        turned = (each.transpose(0, 1).contiguous().transpose(0, 1) for each in (a.conj(), b))
        assert torch.equal(scan(*turned, state)[0], wanted)
        assert torch.equal(scan(a.conj(), b, state)[0], wanted)
        lazy = b.conj().imag  # not carried out: -b.imag
        assert torch.equal(scan(a.real, lazy)[0], scan(a.real, -b.imag)[0])
        one = torch.ones(1, 1, 1, dtype=torch.float64).expand(2, 9, 6)
        assert torch.equal(scan(one, one)[0], one.cumsum(1))


@every_kind
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_in_scans_native_stays_in_its_channel_and_after_it(bad: float, kind: str) -> None:
    a, b, state = (each.detach() for each in inputs(kind, 1, 20, 40, True))
    with backends.use(scans="native"):
        clean, _ = scan(a, b, state)
        spoilt = b.clone()
        spoilt[0, 5, 17] = bad
        h, _ = scan(a, spoilt, state)
    changed = h != clean
    assert changed[0, 5:, 17].all()
    assert changed.sum() == 15
    assert not h[0, 5:, 17].isfinite().any()


def test_many_tokens_add_up_to_one_gradient() -> None:
    """da of a fixed a is summed in double precision: 10^5 equal terms."""
    a = torch.zeros(1, requires_grad=True)
    b = torch.full((1, 100_001, 1), 0.1)
    with backends.use(scans="native"):
        scan(a, b)[0].sum().backward()
    torch.testing.assert_close(a.grad, torch.tensor([1e4]), rtol=1e-7, atol=0)


@every_kind
def test_its_price_is_that_of_the_loop(kind: str) -> None:
    a, b, state = (each.detach() for each in inputs(kind, 2, 7, 3, False))
    counted = []
    for name in ("native", "reference"):
        with backends.use(scans=name), torch.no_grad():
            counted.append(count(lambda: scan(a, b, state)))
    assert counted[0] == counted[1]


@pytest.mark.slow
@pytest.mark.graph
def test_torch_holds_the_operators_of_scans_native_sound() -> None:
    for kind in PLAIN:
        a, b, state = inputs(kind, 2, 5, 3, False)
        torch.library.opcheck(native.forward.operator, (a, b, state))
        plain = [each.detach() for each in (a, native.forward(a, b, state), state, b)]
        torch.library.opcheck(native.forward.backward.operator, tuple(plain))


@pytest.mark.slow
@pytest.mark.graph
def test_scans_native_compiled_whole_with_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, ran = inputs("complex", 2, 12, 5, False), []
    wanted = all_of_it("native", leaves)
    called = NativeFunction.__call__

    def call(entry: NativeFunction, *tensors: Tensor | None, **numbers: int) -> object:
        if not is_without_numbers(tensors):
            ran.append(entry.name)
        return called(entry, *tensors, **numbers)

    monkeypatch.setattr(NativeFunction, "__call__", call)
    torch._dynamo.reset()
    for dynamic in (False, True):
        found = all_of_it("native", leaves, torch.compile(scan, fullgraph=True, backend="aot_eager", dynamic=dynamic))
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b)
        assert ran == ["forward", "backward"]
        ran.clear()


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize(("forced", "inside"), [({}, False), ({"scans": "native"}, True)])
def test_an_exported_scans_native_needs_no_native_code_unless_asked(forced: dict[str, str], inside: bool) -> None:
    class Scan(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return scan(a, b)[0]

    a, b = numbers(2, 6, 40).tanh(), numbers(2, 6, 40, seed=1)
    length = torch.export.Dim("length", min=2, max=64)
    with torch.no_grad(), backends.use(**forced):
        program = torch.export.export(Scan(), (a, b), dynamic_shapes=({1: length}, {1: length}) if inside else None)
        assert ("scan_forward" in program.graph_module.code) is inside
        torch.testing.assert_close(program.module()(a, a), scan(a, a)[0])
        if inside:
            torch.testing.assert_close(program.module()(a[:, :3], b[:, :3]), scan(a[:, :3], b[:, :3])[0])


def test_without_native_code_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.ops import native as code

    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    code.forget()
    try:
        a, b = numbers(2, 6, 4).tanh(), numbers(2, 6, 4, seed=1)
        with backends.record_backends() as ran:
            scan(a, b)
        assert ran == {"scans": ["blocked"]}
        with backends.use(scans="native"), pytest.raises(ValueError, match="not available here: SEQLOOM_NATIVE=0"):
            scan(a, b)
    finally:
        monkeypatch.undo()
        code.forget()
