"""Ops whose C goes over memory once against the reference, at sizes that fill no vector, and for any threads."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.ops import backends
from seqloom.ops.fused import gated_decay, small_blocks
from tests.ops.needing import needs_native

pytestmark = needs_native


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
    return Case("gated_decay", sizes, lambda *of: gated_decay.gate_decay(*of, fresh))


CASES = [
    *(blocks(1, 1, 1, 1), blocks(2, 67, 5, 4), blocks(1, 3, 9, 2), blocks(2, 5, 3, 3), blocks(1, 2, 3, 16)),
    *(gates(1, 1, 1, 1, True), gates(3, 67, 2, 5, [True, False, True]), gates(2, 3, 1, 17, False)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op} {case.sizes[0]}")
def test_the_c_of_one_pass_is_the_reference(case: Case) -> None:
    wanted = case.computed("reference", case.inputs())
    for dtype, bound in ((torch.float64, 1e-11), (torch.float32, 2e-4)):
        for a, b in zip(case.computed("native", case.inputs(dtype)), wanted, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound)


@pytest.mark.parametrize(
    "case",
    [
        blocks(1, 2, 2, 2),
        gates(2, 2, 1, 2, [True, False]),
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
            a, b = gated_decay.gate_decay(*leaves, False)
        found.append([a, b, *torch.autograd.grad(b.sum() + a.sum(), leaves[2:])])
    for one, other in zip(*found, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=1e-9)


def test_wrong_sizes_are_errors() -> None:
    with pytest.raises(ValueError, match="x must be"):
        small_blocks.products(torch.ones(1, 2, 5), torch.ones(2, 2, 2))
