"""A run that is killed before any one of its changes to the file system resumes with the same bits."""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.training.train import Outcome
from tests.training.running import apart, at_call, newest, same, saved, tiny


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


def killed(call: int, folder: Path, expected: Path) -> bool:
    """Kills a run before this call, resumes it and compares; False where the run ended before it."""
    code = apart(folder, arm=at_call(call))
    if code == 0:
        return False
    assert code == -signal.SIGKILL
    for step in saved(folder):
        assert newest(folder).step >= step, f"the checkpoint of step {step} was torn"
    messages: list[str] = []
    tiny(folder, say=messages.append)
    assert not [line for line in messages if "damaged" in line or "moved" in line]
    same(folder, expected)
    assert not list(folder.rglob("*.tmp-*")), "leftovers of the killed process stayed"
    return True


def every(stride: int, first: int, whole: Callable[..., Outcome], folder: Path) -> int:
    expected = whole().run.folder
    calls = itertools.takewhile(lambda call: killed(call, folder / str(call), expected), itertools.count(first, stride))
    return sum(1 for _ in calls)


@pytest.mark.slow
def test_killed_at_some_calls(whole: Callable[..., Outcome], tmp_path: Path) -> None:
    assert every(61, 5, whole, tmp_path) >= 2


@pytest.mark.slow
def test_killed_at_every_call(whole: Callable[..., Outcome], tmp_path: Path) -> None:
    assert every(1, 0, whole, tmp_path) >= 80
