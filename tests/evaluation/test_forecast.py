"""Forecasts: read once or again, the same paths; their distribution; wrong input."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.evaluation.forecast import forecast
from seqloom.models.kinds import model_config
from seqloom.models.regressor import Regressor


def built(**changes: Any) -> Regressor:
    torch.manual_seed(0)
    sizes = {"dim": 8, "depth": 2, "context": 16, "ffn": 12, "std": 0.5, "dropout": 0.0, "mixer": {"kind": "gru"}}
    columns = {"columns": ("a", "b"), "targets": ("a", "b"), "mean": (1.0, 0.0), "deviation": (2.0, 1.0)}
    scales = {"target_mean": (1.0, 0.0), "target_deviation": (2.0, 1.0)}
    model = model_config({"kind": "regressor", **sizes, **columns, **scales, **changes}).build()
    assert isinstance(model, Regressor)
    return model.double().eval()


@pytest.fixture
def history() -> Any:
    return np.random.default_rng(0).standard_normal((9, 2))


def test_a_state_gives_the_paths_that_reading_again_gives(history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built()
    paths = forecast(model, history, 5, paths=3, seed=1)
    assert paths.shape == (3, 5, 2)
    assert not np.array_equal(paths, forecast(model, history, 5, paths=3, seed=2))
    monkeypatch.setattr(Regressor, "reads_on", False)
    assert np.allclose(forecast(model, history, 5, paths=3, seed=1), paths, atol=1e-9)


def test_a_path_is_drawn_number_by_number(history: Any) -> None:
    """The second number's distribution is that after the first one that was drawn."""
    model = built()
    (path,) = forecast(model, history, 2, paths=1, seed=4)
    generator = torch.Generator().manual_seed(4)
    read = torch.from_numpy(history)[None]
    for time in range(2):
        outputs, _ = model.predict(read)
        y = model.draw(outputs[:, -1:], generator)
        assert np.allclose(y[0, 0].detach().numpy(), path[time])
        read = torch.cat([read, y], 1)


@pytest.mark.parametrize(
    ("changes", "call", "words"),
    [
        ({"head": "mean"}, {}, "head=gaussians"),
        ({"targets": ("c", "b")}, {}, "only what is read can be forecast"),
        ({}, {"history": np.zeros((0, 2))}, "a history is finite numbers"),
        ({}, {"history": np.full((3, 2), np.nan)}, "a history is finite numbers"),
        ({}, {"history": np.zeros((3, 1))}, r"a history is finite numbers \(times, 2\)"),
        ({}, {"times": 0}, "times must be 1 or more"),
        ({}, {"paths": 0}, "paths must be 1 or more"),
    ],
)
def test_wrong_calls(changes: dict[str, Any], call: dict[str, Any], words: str, history: Any) -> None:
    with pytest.raises(ValueError, match=words):
        forecast(built(**changes), **{"history": history, "times": 2, **call})
