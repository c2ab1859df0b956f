"""Ops whose C goes over memory once against the reference, at sizes that fill no vector, and for any threads."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.ops import backends, delta_inputs, gated_decay, gelu_gate, skip_norm, small_blocks
from tests.ops.needing import needs_native

pytestmark = needs_native
Draw = Callable[..., Tensor]


class Case(NamedTuple):
    """An op, the sizes of what it is given, and how it is called."""

    op: str
    sizes: tuple[tuple[int, ...], ...]
    run: Callable[..., Tensor | tuple[Tensor, ...]]

    def inputs(self, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        drawn = [torch.randn(size, generator=generator, dtype=torch.float64) for size in self.sizes]
        return [tensor.to(dtype).requires_grad_() for tensor in drawn]

    def computed(self, backend: str, given: list[Tensor]) -> list[Tensor]:
        """Outputs and gradients."""
        with backends.use(**{self.op: backend}):
            found = self.run(*given)
        outputs = [found] if isinstance(found, Tensor) else [*found]
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(each.shape, generator=generator, dtype=torch.float64) for each in outputs]
        total = sum((each * weight).sum() for each, weight in zip(outputs, weights, strict=True))
        return [*outputs, *torch.autograd.grad(total, given)]


def blocks(B: int, T: int, N: int, n: int) -> Case:
    return Case("small_blocks", ((B, T, N * n), (N, n, n)), small_blocks.products)


def gates(B: int, T: int, H: int, N: int, first: bool | list[bool]) -> Case:
    fresh = first if isinstance(first, bool) else torch.tensor(first)
    sizes = ((B, T, H * N), (H, N, 2 * N), (H, 2 * N), (H * N,))
    return Case("gated_decay", sizes, lambda *of: gated_decay.gated(*of, fresh))


def memory(B: int, T: int, H: int, V: int) -> Case:
    D = H * V
    sizes = ((B, T, H, V), (D,), (D,), (B, T, D + 1), (B, T, D + 2))
    return Case(
        "skip_norm", sizes, lambda x, gain, skip, c, z: skip_norm.normed(x, gain, skip, c[..., :D], z[..., :D], 0.01)
    )


def keys(B: int, T: int, H: int, G: int, K: int, V: int, E: int) -> Case:
    sizes = [(B, T, 2 * H * K + G * V), (B, T, G), *([(B, T, G, E)] if E else [])]
    return Case("delta_inputs", tuple(sizes), lambda x, beta, left=None: delta_inputs.inputs(x, left, beta, H, K))


def let_through(B: int, T: int, D: int) -> Case:
    return Case("gelu_gate", ((B, T, D), (B, T, D + 1)), lambda h, z: gelu_gate.gated(h, 3 * z[..., :D]))


CASES = [
    *(keys(1, 1, 1, 1, 1, 1, 1), keys(2, 67, 2, 4, 5, 3, 1), keys(1, 3, 2, 2, 17, 9, 17), keys(2, 2, 1, 3, 8, 2, 0)),
    *(blocks(1, 1, 1, 1), blocks(2, 67, 5, 4), blocks(1, 3, 9, 2), blocks(2, 5, 3, 3), blocks(1, 2, 3, 16)),
    *(gates(1, 1, 1, 1, True), gates(3, 67, 2, 5, [True, False, True]), gates(2, 3, 1, 17, False)),
    *(let_through(1, 1, 1), let_through(2, 67, 5), let_through(1, 3, 32)),
    *(memory(1, 1, 1, 2), memory(2, 67, 3, 5), memory(1, 3, 2, 33)),
]
LARGE = [
    keys(3, 130, 4, 4, 48, 96, 48),
    blocks(3, 130, 64, 4),
    gates(3, 130, 2, 64, True),
    memory(3, 130, 4, 96),
    let_through(3, 130, 384),
]


@pytest.fixture(autouse=True)
def _one_thread_after() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op} {case.sizes[0]}")
def test_c_is_the_reference(case: Case) -> None:
    wanted = case.computed("reference", case.inputs())
    for dtype, bound in ((torch.float64, 1e-11), (torch.float32, 2e-4)):
        for a, b in zip(case.computed("native", case.inputs(dtype)), wanted, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound)


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.op)
def test_the_number_of_threads_changes_no_bit(case: Case) -> None:
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(case.computed("native", case.inputs(torch.float32)))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize(
    "case",
    [
        keys(1, 2, 1, 2, 2, 1, 1),
        keys(1, 2, 1, 1, 2, 1, 2),
        blocks(1, 2, 2, 2),
        gates(2, 2, 1, 2, [True, False]),
        memory(1, 2, 2, 3),
        let_through(1, 2, 3),
    ],
    ids=lambda case: case.op,
)
def test_both_derivatives(case: Case) -> None:
    def run(*given: Tensor) -> Tensor | tuple[Tensor, ...]:
        with backends.use(**{case.op: "native"}):
            return case.run(*given)

    given = case.inputs()
    assert gradcheck(run, given, fast_mode=True)
    assert gradgradcheck(run, given, fast_mode=True)


@pytest.mark.parametrize("slow", [1e-12, 1e-6, 40.0])
def test_the_root_of_what_is_lost_is_exact_where_nothing_fades(slow: float) -> None:
    """1 - a² for an a that rounds to 1 in float32, and its slope, which is bounded."""
    N, dtype = 9, torch.float32
    rate = torch.tensor(slow, dtype=torch.float64).expm1().log().expand(N)  # softplus of it is `slow`
    given = [torch.ones(1, 3, N), torch.zeros(1, N, 2 * N), torch.zeros(1, 2 * N), rate]
    found = []
    for name, kind in (("native", dtype), ("reference", torch.float64)):
        leaves = [tensor.to(kind).requires_grad_() for tensor in given]
        with backends.use(gated_decay=name):
            a, b = gated_decay.gated(*leaves, False)
        found.append([a, b, *torch.autograd.grad(b.sum() + a.sum(), leaves[2:])])
    for one, other in zip(*found, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gate_of_any_size_is_a_number(dtype: torch.dtype) -> None:
    """Where its square is infinite too, and near its only zero; slopes as of float64's reference."""
    z = torch.tensor([-1e30, -100.0, -32.5, -5.0, -1e-30, 0.0, 1e-30, 0.7, 31.0, 33.0, 1e30], dtype=dtype)
    leaves = [torch.full((1, 2, 11), 2.0, dtype=dtype).requires_grad_(), z.repeat(1, 2, 1).requires_grad_()]
    with backends.use(gelu_gate="native"):
        y = gelu_gate.gated(*leaves)
    dh, dz = torch.autograd.grad(y.sum(), leaves)
    near = z.double().clamp(-40, 40).requires_grad_()
    wanted = torch.nn.functional.gelu(near, approximate="tanh")
    (slope,) = torch.autograd.grad(wanted.sum(), near)
    exact = torch.where(z.double().abs() < 40, wanted.detach(), z.double().relu())
    for found, expected in ((y, 2 * exact), (dh, exact), (dz, 2 * slope)):
        torch.testing.assert_close(found.double()[0, 1], expected, rtol=1e-6, atol=1e-6)


def test_wrong_sizes_are_errors() -> None:
    with pytest.raises(ValueError, match="x must be"):
        small_blocks.products(torch.ones(1, 2, 5), torch.ones(2, 2, 2))
    with pytest.raises(ValueError, match="skip must be"):
        skip_norm.normed(torch.ones(1, 2, 2, 2), torch.ones(4), torch.ones(3), *[torch.ones(1, 2, 4)] * 2, 1e-5)
