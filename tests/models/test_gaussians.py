"""Mixtures of Gaussians: density and mean by hand, draws by their moments."""

import math

import torch

from seqloom.models.gaussians import LEAST, draw, log_density, mean_of


def outputs() -> torch.Tensor:
    """One row of two numbers with three Gaussians each."""
    first, second = [[0.3, -1.0, 0.5], [1.0, -2.0, 0.0], [0.1, -0.4, -9.0]], [[2.0] * 3, [0.0, 1.0, 2.0], [0.0] * 3]
    return torch.tensor([first, second], dtype=torch.float64).view(1, -1)


def by_hand(y: list[float]) -> list[float]:
    rows = outputs()[0].view(2, 3, 3).tolist()
    densities = []
    for (a, means, s), value in zip(rows, y, strict=True):
        total = sum(math.exp(x) for x in a)
        deviations = [math.exp(max(x, LEAST)) for x in s]
        densities.append(
            sum(
                math.exp(x) / total / (d * math.sqrt(2 * math.pi)) * math.exp(-((value - m) ** 2) / 2 / d**2)
                for x, m, d in zip(a, means, deviations, strict=True)
            )
        )
    return densities


def test_density_by_hand() -> None:
    for y in ([0.0, 0.0], [1.0, -0.5], [0.0005, 3.0]):
        expected = torch.tensor([by_hand(y)], dtype=torch.float64).log()
        assert torch.allclose(log_density(outputs(), torch.tensor([y], dtype=torch.float64)), expected, rtol=1e-12)


def test_mean_and_draws() -> None:
    mean = mean_of(outputs(), 2)
    weights = outputs()[0, :3].softmax(0)
    assert torch.allclose(mean[0, 0], (weights * outputs()[0, 3:6]).sum())
    assert torch.allclose(mean[0, 1], torch.tensor(1.0).double())
    drawn = draw(outputs().expand(100_000, -1), 2, torch.Generator().manual_seed(0))
    assert torch.allclose(drawn.mean(0), mean[0], atol=0.02)
    third = ((drawn[:, 0].abs() < 0.01).double().mean() - weights[2]).abs()
    assert third < 0.02, "the narrow Gaussian is chosen as often as its share says"
    again = draw(outputs().expand(5, -1), 2, torch.Generator().manual_seed(0))
    assert torch.equal(again, draw(outputs().expand(5, -1), 2, torch.Generator().manual_seed(0)))


def test_a_density_is_computed_in_float32() -> None:
    low = log_density(outputs().bfloat16(), torch.zeros(1, 2))
    assert low.dtype == torch.float32
