"""What training asks of the allocator is said once, can be declined, and changes no weight."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom.training import memory
from tests.training.running import digests, tiny

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
FAULTS = """
import resource, torch
from seqloom.training.memory import keep_freed_memory
keep_freed_memory()
torch.empty(2**24).fill_(1.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(60):
    torch.empty(2**24).fill_(1.0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture(autouse=True)
def _unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_reported", False)
    monkeypatch.delenv("SEQLOOM_KEEP_MEMORY", raising=False)


def test_it_is_said_in_one_line_once() -> None:
    said: list[str] = []
    assert memory.keep_freed_memory(), "without anyone to tell"
    assert memory.keep_freed_memory(said.append)
    assert memory.keep_freed_memory(said.append)
    assert len(said) == 1
    assert "freed memory is kept" in said[0]
    assert "SEQLOOM_KEEP_MEMORY=0" in said[0]


@pytest.mark.parametrize(("value", "kept"), [("0", False), ("1", True), ("", True)])
def test_it_can_be_declined(value: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setenv("SEQLOOM_KEEP_MEMORY", value)
    assert memory.keep_freed_memory(said.append) is kept
    assert len(said) == kept


def test_training_says_it_and_its_weights_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    kept = tiny(tmp_path / "kept", say=said.append)
    assert sum("SEQLOOM_KEEP_MEMORY=0" in line for line in said) == 1
    monkeypatch.setenv("SEQLOOM_KEEP_MEMORY", "0")
    said.clear()
    monkeypatch.setattr(memory, "_reported", False)
    freed = tiny(tmp_path / "freed", say=said.append)
    assert not any("SEQLOOM_KEEP_MEMORY" in line for line in said)
    assert digests(kept.run.folder) == digests(freed.run.folder)


@pytest.mark.slow
def test_pages_stay_unless_it_is_declined() -> None:
    """60 tensors of 64 MB after one another: mapped anew, page by page, or all in the place of the first."""
    faults = {}
    for value in ("0", "1"):
        environment = {**os.environ, "SEQLOOM_KEEP_MEMORY": value}
        done = subprocess.run(
            [sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True
        )
        faults[value] = int(done.stdout)
    assert faults["1"] * 2 < faults["0"]
