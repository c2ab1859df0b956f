"""One process per run; the kernel releases the lock when its holder ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import lock_descriptor

from seqloom.runs.layout import make_folder
from seqloom.runs.lock import is_held, lock

HOLD = "import sys, time; from seqloom.runs.lock import lock\nwith lock(sys.argv[1]): print('held', flush=True); {}"
LIMIT = 20
"""seconds after which a test fails: a lock that waits for its holder would wait for ever"""


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    def stop(*_: object) -> None:
        pytest.fail(f"waited {LIMIT} s for the lock")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@contextmanager
def holder_of(folder: Path, doing: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that holds the lock while it does something; it is killed at the end, however the test ends."""
    with subprocess.Popen([sys.executable, "-c", HOLD.format(doing), str(folder)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            yield holder
        finally:
            holder.kill()


@pytest.mark.slow
def test_held_by_another_until_it_is_killed(tmp_path: Path) -> None:
    with holder_of(tmp_path / "run", "time.sleep(60)") as holder:
        with pytest.raises(ValueError, match=f"in use by process {holder.pid}; wait for it or choose") as raised:
            _hold(tmp_path / "run")
        assert "\n" not in str(raised.value)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        _hold(tmp_path / "run")


def test_held_by_this_process(tmp_path: Path) -> None:
    with lock(tmp_path):
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()}"):
            _hold(tmp_path)
        with pytest.raises(ValueError, match="in use"):
            _hold(tmp_path)
    _hold(tmp_path)
    with pytest.raises(RuntimeError), lock(tmp_path):
        raise RuntimeError
    _hold(tmp_path)


@pytest.mark.slow
def test_a_forked_child_does_not_keep_it(tmp_path: Path) -> None:
    """As a data loader's worker that outlives its killed parent."""
    fork = "import os; os.fork() or print(os.getpid(), flush=True); time.sleep(30)"
    with holder_of(tmp_path, fork) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(ValueError, match="in use"):
                _hold(tmp_path)
            holder.kill()
            holder.wait()
            _hold(tmp_path)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.slow
def test_the_lock_is_released_at_once_although_a_child_was_forked(tmp_path: Path) -> None:
    with lock(tmp_path):
        child = os.fork()
        if child == 0:
            os._exit(0)
    _hold(tmp_path)
    os.waitpid(child, 0)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"pid": 3}'])
def test_a_lock_whose_holder_is_not_written_yet(tmp_path: Path, text: str) -> None:
    with lock(tmp_path):
        (tmp_path / "lock").write_text(text)
        with pytest.raises(ValueError, match="in use by another process"):
            _hold(tmp_path)
        (tmp_path / "lock").write_text('{"pid": 3, "host": "elsewhere"}')
        with pytest.raises(ValueError, match="in use by process 3 on elsewhere"):
            _hold(tmp_path)


def test_wrong_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="a file is in its place"):
        _hold(tmp_path / "file")

    def refuse(*_: object) -> int:
        raise OSError(30, "Read-only file system")

    make_folder(tmp_path / "a")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ValueError, match=r"cannot write in .*Read-only file system"):
        _hold(tmp_path / "a")


WINDOWS = """
import os, signal, sys
import filelock, torch
for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_NOFOLLOW", "register_at_fork", "fork", "pread", "pwrite"):
    delattr(os, name)
del signal.SIGHUP
sys.modules["fcntl"] = None
from seqloom.runs.lock import is_held, lock
from seqloom.training.signals import Stop
folder = sys.argv[1]
with Stop(), lock(folder):
    assert is_held(folder)
    try:
        with lock(folder):
            pass
    except ValueError as error:
        print(error)
assert not is_held(folder)
"""
"""what is there on Windows, as far as another system can have so little"""


@pytest.mark.slow
def test_without_what_windows_does_not_have(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS, str(tmp_path)], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "is in use by process " in done.stdout


def test_the_first_byte_need_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows a process that reads the locked byte is refused."""
    read = os.read

    def refuse_the_first(descriptor: int, size: int) -> bytes:
        if os.lseek(descriptor, 0, os.SEEK_CUR) == 0:
            raise PermissionError(13, "Permission denied")
        return read(descriptor, size)

    with lock(tmp_path):
        monkeypatch.setattr(os, "read", refuse_the_first)
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()};"):
            _hold(tmp_path)


def test_one_that_asks_is_no_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`is_held` locks the file for an instant, in which a run that begins must not be refused."""
    make_folder(tmp_path)
    with lock(tmp_path):
        pass
    asking = os.open(tmp_path / "lock", os.O_RDONLY)
    assert lock_descriptor(asking, blocking=False)
    monkeypatch.setattr("seqloom.runs.lock.time.sleep", lambda seconds: os.close(asking))
    with lock(tmp_path):
        monkeypatch.undo()
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def _hold(folder: Path) -> None:
    with lock(folder):
        pass
