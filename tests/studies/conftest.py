"""Comparisons of tiny models, quickly; commands of studies run in this process, as those of tests/cli."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from seqloom.core.progress import Say, Show
from seqloom.studies.race import Race, Times
from tests.cli.conftest import _own_cache, seqloom, trained

__all__ = ["_own_cache", "seqloom", "trained"]


@pytest.fixture(autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are prepared once for all tests, and few are written and judged."""
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr("seqloom.studies.samples.STORIES", 2)
    monkeypatch.setattr("seqloom.studies.samples.LENGTH", 20)
    monkeypatch.setattr("seqloom.studies.race.ROUNDS", 2)
    monkeypatch.setattr("seqloom.studies.pictures.TOKENS", 20)


@pytest.fixture
def stopped_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed: for tests that are about something else."""

    def run(race: Race, folder: Path, say: Say, show: Show) -> Sequence[Times]:
        return [Times(contender=name, step=0.1, token=0.01, peak=1000) for name in race.configs]

    monkeypatch.setattr(Race, "run", run)
