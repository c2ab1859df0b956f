"""The sLSTM in C against the equation, with its gradients, for widths that fill no vector and any threads."""

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.recurrence.slstm import native, slstm
from tests.ops.needing import needs_native

pytestmark = needs_native
BOUND = {torch.float64: 1e-11, torch.float32: 2e-4}


def inputs(B: int, T: int, H: int, K: int, dtype: torch.dtype = torch.float64, loud: float = 1.0) -> list[Tensor]:
    """a, W, b, and the state h, c, n, m."""
    generator = torch.Generator().manual_seed(0)

    def draw(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    state = [draw(B, H * K) for _ in range(4)]
    state[2] = 1 + state[2].square()
    made = [loud * draw(B, T, H, 4 * K), draw(H, K, 4 * K) / K**0.5, draw(H, 4 * K), *state]
    return [tensor.to(dtype).requires_grad_() for tensor in made]


def computed(backend: str, given: list[Tensor], lengths: Tensor | None = None) -> list[Tensor]:
    """Outputs and state, and the gradients of everything but m."""
    with backends.use(slstm=backend):
        y, state = slstm(*given[:3], (given[3], given[4], given[5], given[6]), lengths=lengths)
    generator = torch.Generator().manual_seed(1)
    loss = sum(
        (each * torch.randn(each.shape, generator=generator, dtype=torch.float64)).sum() for each in (y, *state[:3])
    )
    return [y, *state, *torch.autograd.grad(loss, given[:6])]


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (5, 7, 2, 3), (2, 3, 1, 17), (4, 2, 3, 8), (9, 2, 1, 5)])
def test_slstm_native_is_its_equation(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    for loud in (1.0, 30.0):
        found = computed("native", inputs(*sizes, dtype, loud))
        wanted = computed("reference", inputs(*sizes, loud=loud))
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(
                a.double(), b, rtol=0, atol=BOUND[dtype] * max(1.0, float(b.detach().abs().max()))
            )


def test_lengths_end_rows() -> None:
    lengths = torch.tensor([0, 3, 7, 1, 7])
    found, wanted = (computed(name, inputs(5, 7, 2, 3), lengths) for name in ("native", "reference"))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_gates_far_apart_neither_overflow_nor_vanish() -> None:
    """A first token has no maximum before it, and logits of 1e4 are exponents."""
    a = torch.zeros(1, 6, 1, 8, dtype=torch.float32)
    a[0, :, 0, :2] = torch.tensor([1e4, -1e4, 50, 0, 1e4, 1e3])[:, None]
    a[0, :, 0, 2:4] = torch.tensor([0, -1e4, 1e4, 3, -1e4, 1e4])[:, None]
    a[0, :, 0, 4:] = 0.5
    w, bias = torch.zeros(1, 2, 8), torch.zeros(1, 8)
    found, wanted = [], []
    for results, name, dtype in ((found, "native", torch.float32), (wanted, "reference", torch.float64)):
        with backends.use(slstm=name):
            y, state = slstm(a.to(dtype), w.to(dtype), bias.to(dtype))
        results.extend([y.double(), *(each.double() for each in state)])
    for one, other in zip(found, wanted, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_the_second_derivative_is_that_of_the_reference() -> None:
    small = inputs(2, 3, 1, 2)
    for first in (0, 1):
        small[first].requires_grad_()

    def run(a: Tensor, w: Tensor) -> Tensor:
        with backends.use(slstm="native"):
            return slstm(a, w, small[2].detach())[0]

    assert torch.autograd.gradgradcheck(run, (small[0], small[1]))


def test_c_refuses_sizes_that_do_not_agree() -> None:
    a, w, bias = (tensor.detach() for tensor in inputs(2, 3, 2, 4)[:3])
    tables = [torch.empty(2, 4, 8, dtype=torch.float64) for _ in "hcnm"]
    with pytest.raises(ValueError, match="w must be"):
        native.FORWARD(a, w[:, :3], bias, *tables, threads=1, K=4, room=1)
    with pytest.raises(ValueError, match="h must be"):
        native.FORWARD(a, w, bias, tables[0][:, :3], *tables[1:], threads=1, K=4, room=1)
    with pytest.raises(ValueError, match="without gaps"):
        native.FORWARD(a, w, bias, *tables[:3], tables[3].mT.contiguous().mT, threads=1, K=4, room=1)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        native.FORWARD(a, w, bias, *tables, threads=0, K=4, room=1)
