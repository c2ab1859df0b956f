"""Benchmarks are scripts in one folder, not a package: fixtures load them as they import one another."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.analysis import history

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Loads a benchmark by its name, and forgets all of them afterwards. Their rows may be of a tree with changes."""
    monkeypatch.setattr(history, "require_traceable", lambda commits: None)
    monkeypatch.syspath_prepend(FOLDER)
    known = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - known:
        if (
            not name.startswith(("seqloom", "torch"))
            and Path(getattr(sys.modules[name], "__file__", "") or "").parent == FOLDER
        ):
            del sys.modules[name]
