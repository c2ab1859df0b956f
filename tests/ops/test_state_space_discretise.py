"""Discretization: the rules against integration, against each other, and at matrices without an inverse."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from seqloom.ops.state_space.discretise import DENSE, DIAGONAL, growth

every_rule = pytest.mark.parametrize("method", DENSE)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integrated(A: Tensor, B: Tensor, x: Tensor, u: float, step: float, parts: int = 400) -> Tensor:
    """x after `step` of x' = A x + B u with u held, by Runge and Kutta's rule."""
    h = step / parts
    for _ in range(parts):
        k1 = A @ x + B * u
        k2 = A @ (x + h / 2 * k1) + B * u
        k3 = A @ (x + h / 2 * k2) + B * u
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + A @ (x + h * k3) + B * u)
    return x


@pytest.mark.slow
@every_rule
@pytest.mark.parametrize("singular", [False, True])
def test_rules_follow_the_system(method: str, singular: bool) -> None:
    """zoh exactly; bilinear and euler to their order in the step."""
    A, B, x = draw(4, 4), draw(4, seed=1), draw(4, seed=2)
    if singular:
        A = A - A[:, :1]  # equal columns make no difference: A (1, 0, 0, 0) = 0
    errors = []
    for step in (0.02, 0.01):
        A_bar, B_bar = DENSE[method](A, B, step)
        errors.append(float((A_bar @ x + B_bar * 0.7 - integrated(A, B, x, 0.7, step)).abs().max()))
    if method == "zoh":
        assert max(errors) < 1e-13
    else:
        assert errors[0] / errors[1] == pytest.approx(8 if method == "bilinear" else 4, rel=0.15)


def test_rules_of_a_chain_of_integrators() -> None:
    """A = [[0, 1], [0, 0]] has no inverse: position and speed under a force."""
    A, B = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    turned = torch.tensor([[1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)
    for method, driven in (("zoh", [0.125, 0.5]), ("bilinear", [0.125, 0.5]), ("euler", [0.0, 0.5])):
        A_bar, B_bar = DENSE[method](A, B, 0.5)
        torch.testing.assert_close(A_bar, turned, rtol=0, atol=1e-15)
        torch.testing.assert_close(B_bar, torch.tensor(driven, dtype=torch.float64), rtol=0, atol=1e-15)


@every_rule
def test_a_matrix_b_is_its_columns_and_steps_broadcast(method: str) -> None:
    A, B, steps = draw(3, 3), draw(3, 2, seed=1), draw(5, seed=2).abs() / 4
    A_bar, B_bar = DENSE[method](A, B, steps)
    assert (A_bar.shape, B_bar.shape) == ((5, 3, 3), (5, 3, 2))
    for k in range(5):
        for m in range(2):
            one, driven = DENSE[method](A, B[:, m], float(steps[k]))
            torch.testing.assert_close(A_bar[k], one, rtol=0, atol=1e-13)
            torch.testing.assert_close(B_bar[k, :, m], driven, rtol=0, atol=1e-13)


@every_rule
@pytest.mark.parametrize("shape", [(4,), (3, 3, 3), (4, 2), ()])
def test_a_b_that_does_not_fit_is_an_error(method: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="B must be"):
        DENSE[method](draw(3, 3), torch.zeros(shape, dtype=torch.float64), 0.1)


@every_rule
def test_a_diagonal_matrix_elementwise(method: str) -> None:
    eigenvalues = torch.tensor([-0.5, -3.0, 0.0, 0.2], dtype=torch.float64)
    A_bar, B_bar = DENSE[method](eigenvalues.diag(), torch.ones(4, dtype=torch.float64), 0.3)
    kept, factor = DIAGONAL[method](eigenvalues, torch.tensor(0.3, dtype=torch.float64))
    torch.testing.assert_close(kept, A_bar.diagonal(), rtol=0, atol=1e-14)
    torch.testing.assert_close(factor, B_bar, rtol=0, atol=1e-14)


@every_rule
def test_complex_eigenvalues_are_those_of_turning_matrices(method: str) -> None:
    A = torch.tensor([[-0.3, -2.0], [2.0, -0.3]], dtype=torch.float64)
    A_bar, B_bar = DENSE[method](A, torch.tensor([1.0, 0.0], dtype=torch.float64), 0.4)
    steps = torch.tensor([[0.4], [0.1]], dtype=torch.float64)
    kept, factor = DIAGONAL[method](torch.tensor([-0.3 + 2j], dtype=torch.complex128), steps)
    assert kept.shape == (2, 1)
    assert factor.shape == (2, 1)
    torch.testing.assert_close(torch.view_as_real(kept[0, 0]), A_bar[:, 0], rtol=0, atol=1e-14)
    torch.testing.assert_close(torch.view_as_real(factor[0, 0].to(kept)), B_bar, rtol=0, atol=1e-14)


@pytest.mark.slow
@every_rule
def test_derivatives_of_state_space_discretise_by_differences(method: str) -> None:
    given = (draw(3, 3), draw(3, seed=1), draw(2, seed=2).abs() / 4)
    assert torch.autograd.gradcheck(DENSE[method], [x.requires_grad_() for x in given], fast_mode=True)
    assert torch.autograd.gradgradcheck(DENSE[method], [x.requires_grad_() for x in given], fast_mode=True)
    turning = torch.tensor([0.0, -1e-6, -0.5 + 3j, 2e-3j, -4 + 1j], dtype=torch.complex128, requires_grad=True)
    real = torch.tensor([0.0, 1e-5, -0.3, -9.0], dtype=torch.float64, requires_grad=True)
    step = torch.tensor([[0.3], [1.1]], dtype=torch.float64, requires_grad=True)
    for eigenvalues in (turning, real):
        assert torch.autograd.gradcheck(DIAGONAL[method], (eigenvalues, step), fast_mode=True)
        assert torch.autograd.gradgradcheck(DIAGONAL[method], (eigenvalues, step), fast_mode=True)


@pytest.mark.parametrize("turn", [1.0, 0.0])
def test_growth_near_nothing_in_float32(turn: float) -> None:
    """(e^z - 1) / z and its derivative, to |z| = 30, against float64 or, near 0, against 1 + z/2 and ½ + z/3."""
    size = torch.logspace(-20, 1.4, 300, dtype=torch.float64)
    exact = torch.complex(-size, turn * size) if turn else -size
    small = exact.to(torch.complex64 if turn else torch.float32).requires_grad_()
    actual = growth(small)
    (slope,) = torch.autograd.grad(actual.real.sum(), small)
    z = small.detach().to(exact)
    near = z.abs() < 1e-3
    expected = torch.where(near, 1 + z / 2 + z * z / 6, torch.expm1(z) / z)
    steep = torch.where(near, 0.5 + z / 3 + z * z / 8, (torch.exp(z) - expected) / z)
    assert float(((actual.detach() - expected) / expected).abs().max()) < 1e-6
    assert float(((slope.conj() - steep) / steep).abs().max()) < 2e-6
    assert float(growth(torch.zeros(1))) == 1.0


@pytest.mark.parametrize("size", [1e-12, 1e12, 1e30])
def test_gradients_of_zoh_are_as_accurate_where_they_are_large(size: float) -> None:
    """A system that grows over a long sequence has gradients of any size."""
    A, B = draw(3, 3).requires_grad_(), draw(3, 2, seed=1).requires_grad_()
    outputs = DENSE["zoh"](A, B, 0.5)
    weights = (draw(3, 3, seed=2), draw(3, 2, seed=3))
    expected = torch.autograd.grad(outputs, (A, B), weights, retain_graph=True)
    result = torch.autograd.grad(outputs, (A, B), tuple(size * weight for weight in weights))
    for gradient, other in zip(result, expected, strict=True):
        torch.testing.assert_close(gradient / size, other, rtol=1e-12, atol=1e-13)


def test_zoh_has_derivatives_of_any_order_and_of_many_systems() -> None:
    A, B = draw(2, 3, 3).requires_grad_(), draw(2, 3, seed=1).requires_grad_()
    assert gradcheck(lambda A, B: DENSE["zoh"](A, B, 0.5), (A, B))
    assert gradgradcheck(lambda A, B: DENSE["zoh"](A, B, 0.5), (A, B))
    alone = [DENSE["zoh"](A[n], B[n], 0.5) for n in range(2)]
    for together, each in zip(
        torch.func.vmap(lambda A, B: DENSE["zoh"](A, B, 0.5))(A, B), zip(*alone, strict=True), strict=True
    ):
        torch.testing.assert_close(together, torch.stack(each))
