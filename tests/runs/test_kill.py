"""A process killed at any moment of a save loses no finished save, and leaves no torn checkpoint."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from seqloom.runs import checkpoint, steps
from tests.runs.saving import is_whole, save_until_killed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_kills(folder: Path, seed: int) -> None:
    _kill_often(folder, seed, kills=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_kills(folder: Path, seed: int) -> None:
    _kill_often(folder, seed + 100, kills=60)


def _kill_often(folder: Path, seed: int, kills: int) -> None:
    instants = random.Random(seed)
    message: list[str] = []
    last = -1
    torn = 0
    for _ in range(kills):
        last = max([last, *_run_and_kill(folder, last + 1, instants.uniform(0.0, 0.03))])
        torn += any(".tmp-" in path.name or path.name.startswith("replaced") for path in folder.iterdir())
        assert all(is_whole(checkpoint.load(path)) for path in steps.whole(folder).values())
        seen = checkpoint.peek(folder, message.append)
        result = checkpoint.newest(folder, message.append)
        assert result is not None
        assert seen is not None
        assert is_whole(result)
        assert result.step == seen.step >= last
        assert result.step <= last + 1
        assert not message
        assert not [path for path in folder.iterdir() if steps.step_of(path) is None]
        last = result.step
    assert torn, "no kill fell into a save: the test proves nothing"


def _run_and_kill(folder: Path, start: int, after: float) -> list[int]:
    """Kills a saving child `after` seconds after its first save has returned; the steps that it reported."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)  # a child that hangs ends, and the test with it
            os.close(reader)
            save_until_killed(folder, start, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as reports:
        first = reports.read(4)
        assert first, "the child ended before its first save"
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        expected = first + reports.read()
    return [int.from_bytes(expected[position : position + 4], "little") for position in range(0, len(expected), 4)]
