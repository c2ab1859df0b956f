"""Rounding errors: what each is measured against."""

import pytest
import torch

from seqloom.analysis import rounding
from seqloom.mixers import mixer_config


def test_a_small_gradient_is_measured_against_the_largest_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {"output": 2.0, "input": 1000.0, "w": 0.001}
    computed = {"output": 2.5, "input": 1001.0, "w": 0.002}

    def read(mixer: object, x: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        numbers = exact if x.dtype == torch.float64 else computed
        return {name: torch.tensor([number], dtype=torch.float64) for name, number in numbers.items()}

    monkeypatch.setattr(rounding, "_read", read)
    errors = rounding.errors(mixer_config({"kind": "identity"}).build(4, None), 3)
    expected = {"output": 0.5 / 2, "input": 1 / 1000, "w": 0.001 / (rounding.SMALL * 1000)}
    assert {name: error * rounding.EPS for name, error in errors.items()} == pytest.approx(expected)
