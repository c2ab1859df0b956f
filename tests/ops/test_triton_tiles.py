"""The lag sum by Toeplitz tiles in Triton against the reference, on a GPU or under Triton's interpreter."""

import pytest
import torch
from torch import Tensor

from seqloom.counting.count import count
from seqloom.ops import backends
from seqloom.ops.lag_sum import choice, lags, tiles
from tests.ops.kernel_runs import DEVICE, every_type, everything, numbers, runs
from tests.ops.kernel_runs import same as same_as_named


def summed(x: Tensor, w: Tensor) -> tuple[Tensor]:
    return (lags(x, w),)


def same(x: Tensor, w: Tensor, dtype: torch.dtype) -> None:
    same_as_named("lag_sum", summed, [x, w], dtype, backend="tiles")


@runs
@every_type
@pytest.mark.parametrize(
    ("B", "T", "L", "D"), [(1, 1, 1, 1), (3, 37, 16, 2), (3, 37, 17, 2), (2, 40, 40, 3), (1, 9, 30, 2)]
)
def test_the_lag_sum_of_triton_tiles(
    dtype: torch.dtype, B: int, T: int, L: int, D: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of 16, which tokens and lags cross, and with lags that reach before the first token."""
    monkeypatch.setattr(tiles, "TIMES", 16)
    same(numbers(B, T, D), numbers(L, D, seed=1), dtype)


@runs
def test_rows_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "ROWS", 16)
    same(numbers(21, 18, 2), numbers(18, 2, seed=1), torch.float32)


@runs
def test_in_blocks_as_they_are() -> None:
    same(numbers(2, 150, 2), numbers(100, 2, seed=1), torch.float32)


@runs
def test_no_lag_sum_depends_on_later_inputs_or_other_rows() -> None:
    x, w = numbers(3, 40, 2), numbers(33, 2)
    with backends.use(lag_sum="tiles"):
        y = lags(x, w)
        x[0], x[2], x[1, 21:] = torch.nan, torch.nan, x[1, 21:] + 1e6
        assert torch.equal(lags(x, w)[1, :21], y[1, :21])


@runs
def test_second_derivatives_of_triton_tiles() -> None:
    x, w = numbers(1, 3, 2).requires_grad_(), numbers(2, 2, seed=1).requires_grad_()
    with backends.use(lag_sum="tiles"):
        assert torch.autograd.gradgradcheck(lags, (x, w))


@runs
@pytest.mark.parametrize("needed", [(True, False), (False, True), (True, True)])
def test_torch_holds_the_operators_of_triton_tiles_sound(needed: tuple[bool, bool]) -> None:
    x, w = numbers(2, 5, 3).requires_grad_(), numbers(4, 3).requires_grad_()
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(tiles.forward.operator, (x, w), test_utils=tests)
    torch.library.opcheck(tiles.backward.operator, (x, w, x, *needed), test_utils=tests)


@runs
@pytest.mark.graph
def test_triton_tiles_compiled_whole_with_its_gradients() -> None:
    x = numbers(2, 7, 3).requires_grad_()

    def run(x: Tensor) -> tuple[Tensor]:
        return (lags(x.sin(), x[0]),)

    expected = everything("lag_sum", "tiles", run, [x])
    torch._dynamo.reset()
    actual = everything("lag_sum", "tiles", torch.compile(run, fullgraph=True, backend="aot_eager"), [x])
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b)


@runs
def test_half_precision_and_nothing_to_read() -> None:
    x = numbers(2, 5, 3).bfloat16()
    with backends.use(lag_sum="tiles"):
        assert lags(x, x[0]).dtype == torch.bfloat16
        assert lags(x[:0], x[0]).shape == (0, 5, 3)
        with pytest.raises(ValueError, match="backend 'tiles' of lag_sum cannot do this"):
            lags(x, torch.ones(2, 3, 3, device=DEVICE))


@runs
def test_what_is_executed_has_a_price() -> None:
    x = numbers(2, 20, 3)
    counted = []
    for backend in ("tiles", "reference"):
        with torch.no_grad(), backends.use(lag_sum=backend):
            counted.append(count(lambda: lags(x, x[0])).total)
    assert 0.9 < counted[0] / counted[1] < 1.1


class OnAGPU:
    """What the rule asks of x on a GPU."""

    is_cpu, device = False, torch.device("cuda")

    def __init__(self, *shape: int) -> None:
        self.shape = shape


@pytest.mark.parametrize(
    ("B", "T", "L", "shape", "expected"),
    [
        (32, 1024, 64, (512,), "triton"),
        (32, 1024, 1024, (512,), "tiles"),
        (32, 4096, 1024, (512,), "tiles"),
        (32, 4096, 1025, (512,), "fft"),
        (7, 1024, 1024, (512,), "fft"),
        (1, 1024, 1024, (), "toeplitz"),
        (1, 4096, 1024, (), "fft"),
        (32, 1024, 1024, (512, 512), "fft"),
    ],
)
def test_the_rule(
    B: int, T: int, L: int, shape: tuple[int, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice.device, "best", lambda device: True)
    w = torch.empty(L, *shape, device="meta")
    assert choice.fastest(OnAGPU(B, T, 512), w) == expected  # type: ignore[arg-type]


def test_without_triton_one_number_is_a_product_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice.device, "best", lambda device: False)
    rows = OnAGPU(32, 1024, 512)
    chosen = [choice.fastest(rows, torch.empty(1024, *shape, device="meta")) for shape in ((), (512,))]  # type: ignore[arg-type]
    assert chosen == ["toeplitz", "fft"]
