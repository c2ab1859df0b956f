"""The projection: either library gives torch's product, its gradients and their gradients; small ones are torch's."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from seqloom.layers.linear import Linear
from seqloom.ops import backends
from seqloom.ops.fused.projection import LEAST, onednn, outer, project

pytestmark = pytest.mark.skipif("onednn" in backends.unavailable("projection"), reason="this torch has no oneDNN")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(actual: Tensor, expected: Tensor) -> None:
    assert float((actual.double() - expected).norm()) <= 1e-6 * float(expected.norm())


@pytest.mark.parametrize("lead", [(7,), (3, 5), (2, 3, 4), (4, 48)])
@pytest.mark.parametrize(("inputs", "outputs"), [(9, 9), (4, 11), (13, 5)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("backend", ["onednn", "reference", "torch"])
def test_the_product_and_its_gradients(
    backend: str, lead: tuple[int, ...], inputs: int, outputs: int, biased: bool
) -> None:
    x, w, b = numbers(*lead, inputs), numbers(outputs, inputs, seed=1), numbers(outputs, seed=2) if biased else None
    leaves = [each.requires_grad_() for each in (x, w, b) if each is not None]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    dy = numbers(*lead, outputs, seed=3)
    with backends.use(projection=backend):
        y = project(*leaves)
        gradients = torch.autograd.grad(y, leaves, dy)
    expected = linear(*exact)
    close(y.detach(), expected.detach())
    for a, e in zip(gradients, torch.autograd.grad(expected, exact, dy.double()), strict=True):
        close(a, e)


def test_gradients_of_gradients() -> None:
    x, w = numbers(6, 4).requires_grad_(), numbers(5, 4, seed=1).requires_grad_()

    def slopes(run: str) -> list[Tensor]:
        with backends.use(projection=run):
            first = torch.autograd.grad(project(x, w).pow(3).sum(), (x, w), create_graph=True)
            return list(torch.autograd.grad(sum(each.square().sum() for each in first), (x, w)))

    for a, e in zip(slopes("onednn"), slopes("torch"), strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wants", ["x", "w"])
def test_one_gradient_alone(wants: str) -> None:
    x, w = numbers(6, 4).requires_grad_(wants == "x"), numbers(5, 4, seed=1).requires_grad_(wants == "w")
    with backends.use(projection="onednn"):
        project(x, w).sum().backward()
    assert (x.grad is None) is (wants == "w")
    assert (w.grad is None) is (wants == "x")


def test_projection_of_any_layout_in_memory() -> None:
    x, w = numbers(8, 6), numbers(6, 5, seed=1)
    with backends.use(projection="onednn"):
        close(project(x.T, numbers(3, 8, seed=2)), linear(x.T.double(), numbers(3, 8, seed=2).double()))
        close(project(x, w.T), linear(x.double(), w.T.double()))
        close(project(x[:1].expand(4, 6), w.T), linear(x[:1].expand(4, 6).double(), w.T.double()))
        part = numbers(5, 18, seed=4)[:, 6:12]
        close(project(x, part), linear(x.double(), part.double()))
        turned, weight = x.T.detach().requires_grad_(), numbers(3, 8, seed=2).requires_grad_()
        given = numbers(3, 6, seed=3).T
        project(turned, weight).backward(given)
        close(turned.grad, given.double() @ weight.detach().double())
        close(weight.grad, given.T.double() @ x.T.double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_number_types_are_torchs(dtype: torch.dtype) -> None:
    x, w = numbers(3, 4).to(dtype), numbers(5, 4).to(dtype)
    with backends.use(projection="onednn"):
        assert torch.equal(project(x, w), linear(x, w))


def test_autocast_goes_on_as_before() -> None:
    with backends.use(projection="onednn"), torch.autocast("cpu", torch.bfloat16):
        assert project(numbers(3, 4), numbers(5, 4)).dtype == torch.bfloat16


def test_no_rows_to_project() -> None:
    with backends.use(projection="onednn"):
        assert project(numbers(0, 4), numbers(5, 4)).shape == (0, 5)


def test_large_ones_go_where_it_was_measured_to_be_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = numbers(LEAST // 64 // 64, 64), numbers(64, 64)
    for faster, name in ((True, "onednn"), (False, "torch")):
        monkeypatch.setattr(onednn, "faster", lambda faster=faster: faster)
        with backends.record_backends() as ran:
            project(x, w)
        assert ran == {"projection": [name]}
    with backends.record_backends() as ran:
        project(x[1:], w)
    assert ran == {}


def test_the_layer_has_the_parameters_of_torchs() -> None:
    torch.manual_seed(0)
    ours = Linear(4, 5)
    torch.manual_seed(0)
    theirs = nn.Linear(4, 5)
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours(numbers(2, 4)), theirs(numbers(2, 4)))


@pytest.mark.slow
@pytest.mark.graph
def test_a_captured_graph_is_that_of_torch() -> None:
    layer, x = Linear(64, 64), numbers(LEAST // 64 // 64, 64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), linear(x, layer.weight, layer.bias))
    assert not any("mkldnn" in str(node.target) for node in torch.export.export(layer, (x,)).graph.nodes)


@pytest.mark.parametrize("rows", [5, 64, 192])
@pytest.mark.parametrize("backend", ["onednn", "torch"])
def test_sums_of_outer_products(backend: str, rows: int) -> None:
    a, b = numbers(rows, 7), numbers(3, rows, seed=1).T
    with backends.use(projection=backend):
        close(outer(a, b), a.double().T @ b.double())
        close(outer(a.double(), b.double()), a.double().T @ b.double())


@pytest.mark.parametrize("by_onednn", [True, False])
def test_the_gradient_of_a_weight_by_either_library(monkeypatch: pytest.MonkeyPatch, by_onednn: bool) -> None:
    calls, multiply = [], onednn.outer
    monkeypatch.setattr(onednn, "outer_faster", lambda: by_onednn)
    monkeypatch.setattr(onednn, "outer", lambda a, b: calls.append(1) or multiply(a, b))
    x, w = numbers(LEAST // 64 // 64, 64), numbers(64, 64, seed=1).requires_grad_()
    dy = numbers(len(x), 64, seed=2)
    with backends.use(projection="onednn"):
        (dw,) = torch.autograd.grad(project(x, w), w, dy)
    close(dw, dy.double().T @ x.double())
    close(outer(dy, x), dy.double().T @ x.double())
    assert len(calls) == 2 * by_onednn


@pytest.mark.parametrize(
    ("about", "faster", "outer_faster"),
    [
        ("AuthenticAMD avx2 avx512f", True, True),
        ("AuthenticAMD avx2", True, False),
        ("GenuineIntel avx512f", False, False),
    ],
)
def test_which_library_is_faster_on_which_processor(
    monkeypatch: pytest.MonkeyPatch, about: str, faster: bool, outer_faster: bool
) -> None:
    monkeypatch.setattr(onednn, "_processor", lambda: about)
    for cached in (onednn.faster, onednn.outer_faster):
        cached.cache_clear()
    found = onednn.faster(), onednn.outer_faster()
    for cached in (onednn.faster, onednn.outer_faster):
        cached.cache_clear()
    assert found == (faster, outer_faster)


def test_a_torch_without_onednn_or_its_operator_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert onednn.unavailable() == {}
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        assert onednn.unavailable.__wrapped__() == {"onednn": "this torch has none"}
    with monkeypatch.context() as patch:
        patch.setattr(torch.ops, "mkldnn", object())
        assert onednn.unavailable.__wrapped__() == {"onednn": "this torch has none"}
