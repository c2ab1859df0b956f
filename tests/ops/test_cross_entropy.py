"""The cross-entropy in chunks against torch's over all logits, with its gradients, and its memory."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from seqloom.ops.fused import cross_entropy as losses
from seqloom.ops.fused.cross_entropy import IGNORED, chunked_cross_entropy, linear_cross_entropy
from tests.training.recorded import no_reads

N, D, W = 11, 5, 7


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs(dtype: torch.dtype = torch.float64, bias: bool = True, N: int = N) -> tuple[Tensor, Tensor, Tensor | None]:
    given = [numbers(N, D, seed=0), numbers(W, D, seed=1), numbers(W, seed=2)]
    x, weight, b = (each.to(dtype).requires_grad_() for each in given)
    return x, weight, b if bias else None


def targets(ignored: bool, N: int = N) -> Tensor:
    drawn = torch.randint(W, (N,), generator=torch.Generator().manual_seed(3))
    return torch.where(torch.arange(N) % 3 == 1, IGNORED, drawn) if ignored else drawn


def with_gradients(loss: Tensor, given: tuple[Tensor | None, ...]) -> list[Tensor]:
    return [loss, *torch.autograd.grad(3 * loss, [each for each in given if each is not None])]


@pytest.mark.parametrize("chunk", [1, 4, 11, 100])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_it_is_torchs(dtype: torch.dtype, close: float, ignored: bool, bias: bool, chunk: int) -> None:
    given, target = inputs(dtype, bias), targets(ignored)
    expected = with_gradients(cross_entropy(linear(*given), target), given)
    actual = with_gradients(chunked_cross_entropy(*given, target, chunk), given)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a, b, rtol=close, atol=close)


def test_rows_of_tokens_are_one_batch() -> None:
    x, weight, bias = inputs(N=12)
    flat = chunked_cross_entropy(x, weight, bias, targets(False, 12), 5)
    rows = chunked_cross_entropy(x.view(3, 4, D), weight, bias, targets(False, 12).view(3, 4), 5)
    assert torch.equal(flat, rows)


def test_gradients_are_those_of_differences() -> None:
    assert torch.autograd.gradcheck(lambda *given: chunked_cross_entropy(*given, targets(True), 4), inputs())


@pytest.mark.parametrize("learned", [0, 1, 2])
def test_what_is_not_learned_has_no_gradient(learned: int) -> None:
    given = inputs()
    for number, each in enumerate(given):
        each.requires_grad_(number == learned)
    (expected,) = torch.autograd.grad(cross_entropy(linear(*given), targets(False)), given[learned])
    (actual,) = torch.autograd.grad(chunked_cross_entropy(*given, targets(False), 4), given[learned])
    torch.testing.assert_close(actual, expected)


def test_a_loss_alone_computes_no_gradient() -> None:
    given = inputs()
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled), Seen() as seen:
            loss = chunked_cross_entropy(*given, targets(False), 1)
        assert loss.requires_grad == ("aten::scatter_.src" in seen.names) == enabled


def test_a_second_derivative_is_refused() -> None:
    given = inputs()
    loss = chunked_cross_entropy(*given, targets(False))
    with pytest.raises(RuntimeError, match="no second derivative: take torch's"):
        torch.autograd.grad(loss, given[0], create_graph=True)


def test_nothing_to_predict_is_no_number() -> None:
    given = inputs()
    target = torch.full((N,), IGNORED)
    assert chunked_cross_entropy(*given, target).isnan() == cross_entropy(linear(*given), target).isnan() == True  # noqa: E712


def test_a_target_outside_of_the_vocabulary_is_an_error() -> None:
    for wrong in (W, -1):
        with pytest.raises((RuntimeError, IndexError)):
            chunked_cross_entropy(*inputs(), torch.full((N,), wrong))


def test_autocast_multiplies_narrow_and_sums_wide() -> None:
    """The same as torch's, up to the sums of dW, which are in bfloat16 there."""
    given, target = inputs(torch.float32), targets(False)
    with torch.autocast("cpu", torch.bfloat16):
        expected = with_gradients(cross_entropy(linear(*given).float(), target), given)
        actual = with_gradients(chunked_cross_entropy(*given, target, 4), given)
    assert actual[0].dtype == torch.float32
    torch.testing.assert_close(actual[0], expected[0], rtol=1e-5, atol=1e-5)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=1e-2)


class Seen(TorchDispatchMode):
    """The names of all operations, and the sizes of what they return."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.sizes: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.name())
        out = func(*args, **(kwargs or {}))
        self.sizes |= {leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)}
        return out


def test_no_tensor_is_larger_than_a_chunk_or_what_goes_in() -> None:
    given = inputs(N=64)
    with Seen() as seen:
        with_gradients(chunked_cross_entropy(*given, targets(False, 64), 3), given)
    assert max(seen.sizes) == max(64 * D, 3 * W)
    with Seen() as seen:
        with_gradients(cross_entropy(linear(*given), targets(False, 64)), given)
    assert max(seen.sizes) == 64 * W


def test_nothing_is_read_from_the_device() -> None:
    """As a CUDA graph of a training step needs."""
    given, target = inputs(), targets(True)
    with no_reads():
        loss = chunked_cross_entropy(*given, target, 4)
        loss.backward()


def test_chunks_are_taken_where_there_are_many_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    given, target = inputs(), targets(False)
    taken = []
    monkeypatch.setattr(losses, "chunked_cross_entropy", lambda *_: taken.append(True))
    assert torch.equal(linear_cross_entropy(*given, target), cross_entropy(linear(*given), target))
    monkeypatch.setattr(losses, "LEAST", N * W)
    assert not taken
    linear_cross_entropy(*given, target)
    assert taken
