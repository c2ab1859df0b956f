"""What all tests of Triton's kernels need: where they run, inputs, and the comparison with the reference."""

import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends, gpu

SHAPES = os.environ.get("SEQLOOM_SHAPES") == "1"
DEVICE = torch.device("cpu" if gpu.INTERPRETED else "cuda")

runs = pytest.mark.skipif(
    bool(gpu.why()) or SHAPES, reason=f"{gpu.why()}: set TRITON_INTERPRET=1" if gpu.why() else "the hook wraps kernels"
)
every_type = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn if gpu.why() else drawn.to(DEVICE)


def everything(
    op: str, backend: str, run: Callable[..., tuple[Tensor, ...]], leaves: list[Tensor | None]
) -> list[Tensor]:
    """What comes out, and the gradients of all that goes in."""
    with backends.use(**{op: backend}):
        out = run(*leaves)
    weighed = [(each * numbers(*each.shape, seed=99).to(each.dtype)).real.sum() for each in out]
    expected = [leaf for leaf in leaves if leaf is not None]
    return [*out, *torch.autograd.grad(sum(weighed), expected, allow_unused=True, materialize_grads=True)]


def same(
    op: str,
    run: Callable[..., tuple[Tensor, ...]],
    leaves: list[Tensor | None],
    dtype: torch.dtype = torch.float64,
    backend: str = "triton",
) -> None:
    """The kernels in this dtype are the reference in double precision."""
    exact = [None if leaf is None else leaf.requires_grad_() for leaf in leaves]
    expected = everything(op, "reference", run, exact)
    single = dtype == torch.float32
    given = [
        None if leaf is None else leaf.detach().to(torch.complex64 if leaf.is_complex() else dtype) if single else leaf
        for leaf in leaves
    ]
    actual = everything(op, backend, run, [None if each is None else each.requires_grad_() for each in given])
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.to(b.dtype), b, rtol=2e-5 if single else 1e-11, atol=1e-4 if single else 1e-11)
