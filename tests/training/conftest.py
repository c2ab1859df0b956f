"""Built corpora are kept for this package's tests alone; references are trained once a module."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seqloom.training.train import Outcome
from tests.training.running import tiny


@pytest.fixture(scope="package", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    """The uninterrupted run of some changes."""
    made: dict[tuple[str, ...], Outcome] = {}

    def run(*changes: str) -> Outcome:
        if changes not in made:
            made[changes] = tiny(tmp_path_factory.mktemp("whole"), *changes)
        return made[changes]

    return run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"
