"""The helper that makes a forward and backward pair an operator of torch, on a small pair: y = a x² and x's sign."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.ops.attention import gpu as narrow
from seqloom.ops.autograd import Operator, differentiate, pair_operators
from seqloom.ops.lag_sum import gpu as lag_gpu
from seqloom.ops.linear_decay import gpu as decay_gpu
from seqloom.ops.scan import gpu as scan_gpu
from seqloom.ops.scan.selective_scan import gpu as selective_gpu
from seqloom.ops.wkv_average import gpu as wkv_gpu


def square(x: Tensor, a: Tensor | None, expected: bool) -> tuple[Tensor, Tensor]:
    """y (N,), and what only the backward reads (N, 2)."""
    return (x * x if a is None else a * x * x), torch.stack([x, x.sign()], 1)


def slope(x: Tensor, a: Tensor | None, held: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    scaled = 2 * held[:, 0] * dy
    return (scaled, x.new_empty(0)) if a is None else (a * scaled, (x * x * dy).sum(0, keepdim=True))


def pair(name: str, again: Any) -> Operator:
    return pair_operators(
        f"test_{name}",
        square,
        slope,
        shapes=lambda x, a, expected: [x.shape, (*x.shape, 2)],
        gradient_shapes=lambda x, a, held, dy: [x.shape, (0,) if a is None else a.shape],
        save=lambda inputs, outputs: (*inputs[:2], outputs[1]),
        differentiable=again,
    )


def again(x: Tensor, a: Tensor | None, held: Tensor, dy: Tensor) -> list[Tensor | None]:
    return differentiate(lambda x, a: (x * x if a is None else a * x * x,), (x, a), (dy,))


ONCE, TWICE = pair("once", None), pair("twice", again)
X = torch.tensor([1.5, -2.0, 0.25], dtype=torch.float64)
A = torch.tensor([3.0], dtype=torch.float64)


def leaves() -> tuple[Tensor, Tensor]:
    return X.clone().requires_grad_(), A.clone().requires_grad_()


@pytest.mark.slow
@pytest.mark.parametrize("operator", [ONCE, TWICE], ids=["once", "twice"])
def test_torch_holds_both_sound(operator: Operator) -> None:
    for a in (leaves()[1], None):
        torch.library.opcheck(operator.operator, (leaves()[0], a, True))
        given = (X, None if a is None else A, square(X, None, True)[1], X)
        assert operator.backward is not None
        torch.library.opcheck(operator.backward.operator, given)


class Names(TorchDispatchMode):
    """The operators of ours that torch runs."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "seqloom":
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def test_gradients_are_those_of_the_formula_watched_or_not() -> None:
    for a in (True, False):
        x, scale = leaves()
        given = (x, scale) if a else (x,)
        expected = torch.autograd.grad((scale * x * x if a else x * x).sum(), given)
        gradients = torch.autograd.grad(TWICE(x, scale if a else None, True)[0].sum(), given)
        with Names() as ran:
            watched = torch.autograd.grad(TWICE(x, scale if a else None, True)[0].sum(), given)
        assert ran.names == ["test_twice_forward", "test_twice_backward"]
        for each in (gradients, watched):
            for one, other in zip(each, expected, strict=True):
                assert one.equal(other)


def test_a_second_derivative_is_correct_or_raises() -> None:
    x, a = leaves()
    assert torch.autograd.gradgradcheck(lambda x, a: TWICE(x, a, True)[0], (x, a))
    assert torch.autograd.gradgradcheck(lambda x: TWICE(x, None, True)[0], (x,))
    with pytest.raises(RuntimeError, match="test_once has no second derivative: force its backend 'reference'"):
        torch.autograd.grad(ONCE(x, a, True)[0].sum(), x, create_graph=True)


def test_without_gradients_it_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(TWICE, "operator", never)
    monkeypatch.setattr(TWICE, "_function", never)
    with torch.no_grad():
        assert TWICE(leaves()[0], None, True)[0].equal(X * X)
    assert TWICE(X, None, True)[0].equal(X * X)


@pytest.mark.slow
def test_forward_mode_raises() -> None:
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode derivatives of test_twice"):
        TWICE(forward_ad.make_dual(X, X), None, True)


def test_shapes_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TWICE, "run", None)
    y, held = TWICE(X.to("meta"), None, True)
    assert (y.shape, held.shape, y.dtype, y.device.type) == (X.shape, (3, 2), X.dtype, "meta")


def meta(*sizes: int) -> Tensor:
    return torch.empty(sizes, device="meta", requires_grad=True)


B, T, D, N = 2, 70, 3, 4
GIVEN = {
    "lag sum": (lag_gpu.forward, (meta(B, T, D), meta(5, D))),
    "lag sum of matrices": (lag_gpu.forward, (meta(B, T, D), meta(5, D, D))),
    "attention": (narrow.forward, (meta(B, T, N, D), meta(B, T, 2, D), meta(B, T, 2, 5))),
    "scans": (scan_gpu.forward, (meta(B, T, D), meta(B, T, D), meta(B, D))),
    "scans of a fixed rate": (scan_gpu.forward, (meta(D), meta(B, T, D), meta(B, D))),
    "wkv_average": (wkv_gpu.forward, (*[meta(B, T, D) for _ in range(2)], meta(D), None, meta(B, D), meta(B, D))),
    "linear_decay": (decay_gpu.forward, (*[meta(B, N, T, D) for _ in range(3)], meta(N), meta(B, N, D, D))),
    "selective_scan": (
        selective_gpu.forward,
        (
            *(meta(B, T, D), meta(B, T, D), meta(D, N), meta(B, T, N), meta(B, T, N), meta(B, D, N), meta(D)),
            *(None, None, torch.empty(B, dtype=torch.long, device="meta"), True),
        ),
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_shapes_of_the_kernels_on_a_gpu(name: str) -> None:
    """Without a GPU: what their forward and their backward declare, and which arguments they pass on."""
    operator, given = GIVEN[name]
    output = operator(*given)
    outputs = (output,) if isinstance(output, Tensor) else output[:2]
    leaves = [each for each in given if isinstance(each, Tensor) and each.requires_grad]
    gradients = torch.autograd.grad(sum(output.sum() for output in outputs), leaves)
    assert [gradient.shape for gradient in gradients] == [leaf.shape for leaf in leaves]
    twice = torch.autograd.grad(operator.operator(*given)[0].sum(), leaves[:1], create_graph=True)
    assert twice[0].shape == leaves[0].shape
