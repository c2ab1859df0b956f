"""The allocator setting of training is reported once, can be declined, and changes no weight."""

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


def test_the_message_is_one_line_printed_once() -> None:
    messages: list[str] = []
    assert memory.keep_freed_memory(), "without anyone to tell"
    assert memory.keep_freed_memory(messages.append)
    assert memory.keep_freed_memory(messages.append)
    assert len(messages) == 1
    assert "freed memory is kept" in messages[0]
    assert "SEQLOOM_KEEP_MEMORY=0" in messages[0]


@pytest.mark.parametrize(("value", "kept"), [("0", False), ("1", True), ("", True)])
def test_it_can_be_declined(value: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    monkeypatch.setenv("SEQLOOM_KEEP_MEMORY", value)
    assert memory.keep_freed_memory(messages.append) is kept
    assert len(messages) == kept


@pytest.mark.slow
def test_training_prints_the_message_and_has_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    kept = tiny(tmp_path / "kept", say=messages.append)
    assert sum("SEQLOOM_KEEP_MEMORY=0" in line for line in messages) == 1
    monkeypatch.setenv("SEQLOOM_KEEP_MEMORY", "0")
    messages.clear()
    monkeypatch.setattr(memory, "_reported", False)
    freed = tiny(tmp_path / "freed", say=messages.append)
    assert not any("SEQLOOM_KEEP_MEMORY" in line for line in messages)
    assert digests(kept.run.folder) == digests(freed.run.folder)


@pytest.mark.slow
def test_pages_stay_unless_it_is_declined() -> None:
    """60 tensors of 64 MB one after another: each mapped again, page by page, or all in the memory of the first."""
    faults = {}
    for value in ("0", "1"):
        environment = {**os.environ, "SEQLOOM_KEEP_MEMORY": value}
        done = subprocess.run(
            [sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True
        )
        faults[value] = int(done.stdout)
    assert faults["1"] * 2 < faults["0"]
