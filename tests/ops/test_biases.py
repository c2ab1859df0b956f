"""Biases from factors: the products with keys in reach alone are those of the equation, whatever the chunks."""

import pytest
import torch

from seqloom.counting.count import count
from seqloom.ops.biased_average import biases

N, F = 40, 3


@pytest.mark.parametrize(("T", "lags"), [(1, 4), (4, 4), (9, 4), (23, 5), (7, 1), (30, 19), (30, 20), (12, 40)])
@pytest.mark.parametrize("begins", [[0], [3, 17]])
def test_factors_by_lag(T: int, lags: int, begins: list[int]) -> None:
    u, r = torch.randn(2, N, F, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.tensor(begins)[:, None] + torch.arange(min(T, N - max(begins)))
    result = biases.over_lags(torch.stack([u, r]), positions, lags)
    assert result.shape == (*positions.shape, lags, 1)
    for row, bias in zip(positions.tolist(), result, strict=True):
        for t, own in zip(row, bias, strict=True):
            for lag in range(min(lags, t + 1)):
                assert float(own[lag, 0]) == pytest.approx(float(u[t] @ r[t - lag]), rel=1e-12)


def test_a_token_does_not_read_the_keys_out_of_reach() -> None:
    def operations(keys: int) -> int:
        w = torch.randn(2, keys, F)
        return count(lambda: biases.over_lags(w, torch.tensor([[keys - 1]]), 4)).total

    assert operations(1000) == operations(100)
