"""Each backend of the recurrent cells against the loop of the equation: values, gradients, padding, dtypes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.recurrence import elman, gru, gru_after, lstm, native
from tests.ops.cells import GATES
from tests.ops.needing import needs_native

try:
    from jaxtyping import TypeCheckError
except ImportError:  # pragma: no cover  older jaxtyping
    TypeCheckError = ValueError  # type: ignore[misc,assignment]

B, D, N = 4, 5, 3


def flat(*inputs: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The LSTM with its state in two."""
    y, (h, c) = lstm(*inputs[:-2], (inputs[-2], inputs[-1]), lengths=lengths)
    return y, h, c


READ: dict[str, Callable[..., tuple[Tensor, ...]]] = {"elman": elman, "lstm": flat, "gru": gru, "gru_after": gru_after}
LENGTHS = torch.tensor([0, 3, 7, 1])
FAST = [
    *((cell, "looped") for cell in READ),
    *((cell, "kernel") for cell in READ if cell != "gru"),
    *(pytest.param(cell, "native", marks=needs_native) for cell in READ),
]
TYPES = [(torch.float64, 1e-12), (torch.float32, 2e-5)]
every_fast = pytest.mark.parametrize(("cell", "backend"), FAST)


def drawn(cell: str, T: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> list[Tensor]:
    """x, the weights and the state of a cell."""
    generator = torch.Generator().manual_seed(T)
    G = GATES[cell] * N
    shapes = [(B, T, D), (G, D), (G,), (G, N), *([(N,)] if cell == "gru_after" else []), (B, N)]
    shapes += [(B, N)] if cell == "lstm" else []
    return [(scale * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype) for shape in shapes]


def everything(
    cell: str, backend: str, inputs: list[Tensor], lengths: Tensor | None = None, twice: bool = True
) -> list[Tensor]:
    """Outputs at real places, last states, gradients and, if `twice`, those of their squares, in float64."""
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    with backends.use(recurrence=backend):
        y, *last = READ[cell](*leaves, lengths=lengths)
    if lengths is not None:
        y = torch.where((torch.arange(y.shape[1]) < lengths[:, None])[:, :, None], y, 0.0)
    place = torch.arange(1, y.shape[1] + 1).to(y)[:, None]
    total = (y * place).sin().sum() + sum((n + 2) * each.square().sum() for n, each in enumerate(last))
    first = torch.autograd.grad(total, leaves, retain_graph=twice)
    if not twice:
        return [each.detach().double() for each in (y, *last, *first)]
    graph = torch.autograd.grad(total, leaves, create_graph=True)  # of other operations than `first`
    second = torch.autograd.grad(sum(each.square().sum() for each in graph), leaves)
    return [each.detach().double() for each in (y, *last, *first, *graph, *second)]


@pytest.mark.sample(5)
@every_fast
@pytest.mark.parametrize(("dtype", "bound"), TYPES)
@pytest.mark.parametrize(("T", "lengths"), [(1, None), (2, None), (7, None), (7, LENGTHS)])
def test_values_and_derivatives(
    cell: str, backend: str, T: int, lengths: Tensor | None, dtype: torch.dtype, bound: float
) -> None:
    inputs = drawn(cell, T, dtype)
    wanted = everything(cell, "reference", [each.double() for each in inputs], lengths)
    for found, want in zip(everything(cell, backend, inputs, lengths), wanted, strict=True):
        torch.testing.assert_close(found, want, rtol=0, atol=bound * max(1.0, float(want.abs().max())))


@pytest.mark.parametrize("backend", ["reference", "looped", "kernel", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_cells_of_a_padded_lstm_are_those_of_its_last_token(backend: str, dtype: torch.dtype) -> None:
    """Whatever the padding holds, and however large the gates are."""
    for scale in (1.0, 30.0):
        x, *weights, h, c = drawn("lstm", 7, dtype, scale)
        noise = torch.where((torch.arange(7) < LENGTHS[:, None])[:, :, None], x, torch.nan)
        with backends.use(recurrence=backend):
            _, *last = flat(noise, *weights, h, c, lengths=LENGTHS)
            assert torch.equal(last[0][0], h[0])
            assert torch.equal(last[1][0], c[0])
            for row, length in enumerate(LENGTHS.tolist()):
                one = slice(row, row + 1)
                alone = flat(x[one, :length], *weights, h[one], c[one])[1:]
                for found, want in zip(last, alone, strict=True):
                    torch.testing.assert_close(found[one], want, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("cell", READ)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_later_input_and_other_rows_change_no_bit(cell: str, dtype: torch.dtype) -> None:
    """On the backend that training takes."""
    x, *rest = drawn(cell, 41, dtype)
    y = READ[cell](x, *rest)[0]
    assert y.dtype == dtype
    for place in (1, 6, 17, 40):
        late = x.clone()
        late[:, place:] = 1e6
        assert torch.equal(READ[cell](late, *rest)[0][:, :place], y[:, :place])
    other = x.clone()
    other[1:] = torch.nan
    assert torch.equal(READ[cell](other, *rest)[0][0], y[0])


@pytest.mark.parametrize("cell", READ)
def test_what_is_read_under_autocast_is_not_rounded(cell: str) -> None:
    inputs = drawn(cell, 9, torch.float32)
    wanted = READ[cell](*inputs)[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(READ[cell](*inputs)[0], wanted)


def test_the_backend_of_recurrence_by_size() -> None:
    mkldnn = torch.backends.mkldnn.is_available()
    own = "native" if native.KERNEL.available() else "looped"
    for cell, T, dtype, wanted in (
        ("lstm", 5, torch.float32, "kernel" if mkldnn else own),
        ("lstm", 5, torch.float64, own),
        ("lstm", 1, torch.float32, "reference"),
        ("elman", 5, torch.float32, own),
        ("gru", 5, torch.float32, own),
        ("gru_after", 5, torch.float32, own),
    ):
        with backends.record_backends() as ran:
            READ[cell](*drawn(cell, T, dtype))
        assert ran == {"recurrence": [wanted]}


@needs_native
@pytest.mark.parametrize("cell", READ)
@pytest.mark.parametrize("rows", [1, 3, 9, 30])
def test_rows_and_threads_of_the_native_loop(cell: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that fill no vector, or several; rows of several tasks, which any number of threads computes alike."""
    for units in (1, 8, 19):
        shapes = [(rows, 6, D), (GATES[cell] * units, D), (GATES[cell] * units,), (GATES[cell] * units, units)]
        shapes += [(units,)] if cell == "gru_after" else []
        shapes += [(rows, units)] * (2 if cell == "lstm" else 1)
        generator = torch.Generator().manual_seed(units)
        inputs = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
        found = []
        for threads in (1, 2, 3):
            monkeypatch.setattr("seqloom.ops.native.threads", lambda numbers, count=threads: count)
            found.append(everything(cell, "native", inputs, twice=False))
        for wanted, *others in zip(everything(cell, "reference", inputs, twice=False), *found, strict=True):
            torch.testing.assert_close(others[0], wanted, rtol=0, atol=1e-12 * max(1.0, float(wanted.abs().max())))
            assert all(torch.equal(others[0], other) for other in others[1:])


@pytest.mark.parametrize("cell", READ)
def test_shapes_of_recurrence_that_do_not_fit_are_errors(cell: str) -> None:
    inputs = drawn(cell, 5)
    for place in range(1, len(inputs)):
        wrong = [*inputs]
        wrong[place] = wrong[place][:-1]
        with pytest.raises((ValueError, TypeCheckError)):  # the shape hook may be the first
            READ[cell](*wrong)
