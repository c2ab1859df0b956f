"""The norm of heads in C against torch's own, with both derivatives, for widths that fill no vector."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.ops import backends
from seqloom.ops.fused.gated_norm import native, normalize
from tests.ops.needing import needs_native

GATES = ("none", "silu", "sigmoid", "silu first")


def inputs(gate: str, B: int, T: int, H: int, V: int) -> tuple[Tensor, Tensor | None, Tensor]:
    """y, z with gaps between its tokens, and the gain."""
    generator = torch.Generator().manual_seed(0)

    def draw(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator, dtype=torch.float64).requires_grad_()

    y, wide, gain = draw(B, T, H, V), draw(B, T, H * V + 3), draw(H, V) if gate == "silu first" else draw(V)
    return y, None if gate == "none" else wide[..., : H * V], gain


def computed(backend: str, gate: str, *sizes: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """The output, and the gradients of all that is given."""
    y, z, gain = inputs(gate, *sizes)
    given = [y, *([] if z is None else [z]), gain]
    with backends.use(gated_norm=backend):
        out = normalize(y.to(dtype), None if z is None else z.to(dtype), gain.to(dtype), 0.01, gate)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return [out, *torch.autograd.grad((out * weights).sum(), given)]


@needs_native
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 5, 3, 2), (2, 67, 3, 17), (1, 3, 2, 33)])
def test_the_c_of_gated_norm_is_the_reference(gate: str, sizes: tuple[int, ...]) -> None:
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-4)):
        for a, b in zip(
            computed("native", gate, *sizes, dtype=dtype), computed("reference", gate, *sizes), strict=True
        ):
            torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound)


@needs_native
@pytest.mark.parametrize("gate", GATES)
def test_both_derivatives_of_gated_norm(gate: str) -> None:
    y, z, gain = inputs(gate, 1, 2, 2, 3)

    def run(*given: Tensor) -> Tensor:
        with backends.use(gated_norm="native"):
            return normalize(given[0], given[1] if z is not None else None, given[-1], 0.01, gate)

    given = [each for each in (y, z, gain) if each is not None]
    assert gradcheck(run, given, fast_mode=True)
    assert gradgradcheck(run, given, fast_mode=True)


@needs_native
def test_sizes_that_do_not_belong_together_are_errors() -> None:
    y, z, gain = (None if each is None else each.detach() for each in inputs("silu", 2, 3, 4, 5))
    with pytest.raises(ValueError, match="the gain must have the size"):
        native.normalize(y, z, gain[:4], 0.01, "silu")
    with pytest.raises(ValueError, match="z must be"):
        native.normalize(y, z[..., :19], gain, 0.01, "silu")


def test_other_dtypes_are_left_to_torch() -> None:
    y, z, gain = (each.detach().bfloat16() for each in inputs("silu", 2, 3, 4, 5))
    with backends.record_backends() as ran:
        assert normalize(y, z, gain, 0.01, "silu").dtype == torch.bfloat16
    assert ran == {"gated_norm": ["reference"]}
