"""Comparisons of tiny models, quickly."""

import pytest

from seqloom.experiments.weigh import Clocks


@pytest.fixture(autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are prepared once for all tests, and few are written and judged."""
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr("seqloom.experiments.kept.STORIES", 2)
    monkeypatch.setattr("seqloom.experiments.kept.TOKENS", 20)
    monkeypatch.setattr("seqloom.experiments.weigh.ROUNDS", 2)
    monkeypatch.setattr("seqloom.experiments.pictures.TOKENS", 20)


@pytest.fixture
def stopped_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed: for tests that are about something else."""
    fixed = Clocks(step=0.1, token=0.01, peak=1000)
    monkeypatch.setattr("seqloom.experiments.kept.clocks", lambda models: dict.fromkeys(models, fixed))
