"""Rotary positions: pairs of channels are rotated as complex numbers; products depend on distance alone."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.positions.rotary import angles, rotate, turns


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turned(x: Tensor, time: Tensor) -> Tensor:
    return rotate(x, *turns(time, angles(x.shape[-1]), x.dtype))


@pytest.mark.parametrize(("width", "expected"), [(2, [1.0]), (4, [1.0, 0.01]), (8, [1.0, 0.1, 0.01, 0.001])])
def test_angles(width: int, expected: list[float]) -> None:
    theta = angles(width)
    assert theta.dtype == torch.float64
    torch.testing.assert_close(theta, torch.tensor(expected, dtype=torch.float64), rtol=1e-15, atol=0)


def test_another_base() -> None:
    assert angles(4, base=100.0).tolist() == [1.0, pytest.approx(0.1)]


def test_an_odd_width_is_an_error() -> None:
    with pytest.raises(ValueError, match="a width of 5 is odd"):
        angles(5)


def test_a_pair_is_a_complex_number() -> None:
    x, time = draw(2, 3, 7, 8), torch.arange(7)
    pairs = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones(7, 4).double(), time[:, None] * angles(8))
    torch.testing.assert_close(turned(x, time), torch.cat([pairs.real, pairs.imag], -1), rtol=0, atol=1e-14)


def test_a_quarter_turn() -> None:
    x = torch.tensor([[3.0, 5.0]])
    y = rotate(x, *turns(torch.tensor([1]), torch.tensor([math.pi / 2]).double(), torch.float32))
    torch.testing.assert_close(y, torch.tensor([[-5.0, 3.0]]))


def test_position_0_is_not_rotated_and_norms_are_preserved() -> None:
    x = draw(5, 6)
    assert torch.equal(turned(x, torch.zeros(5, dtype=torch.long)), x)
    torch.testing.assert_close(turned(x, torch.arange(5) * 999).norm(dim=-1), x.norm(dim=-1), rtol=1e-13, atol=0)


@pytest.mark.parametrize("shift", [1, 77, 100_000])
def test_products_depend_on_the_distance_alone(shift: int) -> None:
    q, k, time = draw(9, 8), draw(9, 8, seed=1), torch.arange(9)
    here = turned(q, time) @ turned(k, time).T
    there = turned(q, time + shift) @ turned(k, time + shift).T
    torch.testing.assert_close(there, here, rtol=0, atol=1e-9)
    assert not torch.allclose(turned(q, time + shift), turned(q, time))


def test_products_are_the_papers_with_a_conjugate_key() -> None:
    """Re Σ q e^{ιtθ} k̄ e^{-ιuθ}."""
    q, k, theta = draw(1, 6), draw(1, 6, seed=1), angles(6)
    expected = sum(
        (complex(q[0, i], q[0, i + 3]) * complex(k[0, i], -k[0, i + 3]) * complex(math.cos(a), math.sin(a))).real
        for i, a in enumerate(((11 - 4) * theta).tolist())
    )
    actual = (turned(q, torch.tensor([11])) * turned(k, torch.tensor([4]))).sum()
    assert float(actual) == pytest.approx(expected, abs=1e-13)


def test_times_of_rows() -> None:
    """Rows with different positions: (B, 1, T) against (B, H, T, K)."""
    x, seen = draw(2, 3, 4, 6), torch.tensor([0, 10])
    y = turned(x, (seen[:, None] + torch.arange(4))[:, None])
    torch.testing.assert_close(y[1], turned(x[1], torch.arange(10, 14)), rtol=0, atol=0)


def test_large_positions_are_exact_in_float32() -> None:
    x, time = draw(1, 64).float(), torch.tensor([1_000_000])
    exact = turned(x.double(), time)
    torch.testing.assert_close(turned(x, time).double(), exact, rtol=0, atol=1e-6)


def test_gradients_of_rotary_are_differences() -> None:
    x, time = draw(2, 3, 4).requires_grad_(), torch.arange(3)
    assert torch.autograd.gradcheck(lambda x: turned(x, time), (x,))
