"""The package computes what it computed before its redesign: see `record.py`, which made the files next to this one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.recordings.record import HERE, MIXERS, comparison, losses, prices_of


def recorded(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("kind", MIXERS)
def test_losses_in_float64(kind: str, dropout: float) -> None:
    expected = recorded("losses")[f"{kind} {dropout}"]
    assert losses(kind, torch.float64, dropout) == pytest.approx(expected, rel=1e-10, abs=0)


@pytest.mark.slow
def test_prices() -> None:
    for name, expected in recorded("prices").items():
        assert prices_of(name) == expected, name


@pytest.mark.slow
def test_rows_of_a_comparison(tmp_path: Path) -> None:
    actual = comparison(tmp_path)
    expected = recorded("compare")
    assert actual.keys() == expected.keys()
    for name, row in expected.items():
        assert actual[name] == pytest.approx(row, rel=1e-4), name  # float32: the last bits are the processor's
