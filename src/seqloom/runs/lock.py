"""One process a run: a lock that the system releases when its holder dies, however it dies.

The file `lock` in the run's folder stays; being locked is a state of the open file (flock, on Windows a lock of its
first byte, both by filelock), not of its existence. Its text, the holder's process number and machine, serves the
message only. It begins after the first byte, which Windows lets nobody read meanwhile.
"""

import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from seqloom.core.files import GUARDS, NOT_A_LINK, parse_json
from seqloom.runs.layout import make_folder

_TRIES, _PAUSE = 3, 0.01
"""how often, and after how many seconds, a lock is tried again: one that only asks holds it for an instant"""

_held: set[int] = set()


def _forget_after_fork() -> None:
    # A forked child shares the open file. If it stayed open there, the lock would outlive the parent.
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


@contextmanager
def lock(folder: str | Path) -> Iterator[None]:
    """Holds the run in `folder` for this process; makes the folder when it is not there.

    ValueError, in one line, when another process (or this one, elsewhere) holds it, or the folder cannot be written.
    """
    path = Path(folder) / "lock"
    make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | GUARDS | NOT_A_LINK, 0o666)
    except OSError as error:
        raise ValueError(f"cannot write in {folder} ({error.strerror}): choose another --out") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file, so the run cannot be locked: choose another --out")
    _held.add(descriptor)
    owner = os.getpid()
    try:
        _take(descriptor, folder)
        yield
    finally:
        if os.getpid() == owner:
            _held.discard(descriptor)
            unlock_descriptor(descriptor)  # a child that was forked meanwhile has the file open too
            os.close(descriptor)


def is_held(folder: str | Path) -> bool:
    """Whether a process holds the run in `folder` now; changes nothing."""
    try:
        descriptor = os.open(Path(folder) / "lock", os.O_RDONLY | GUARDS | NOT_A_LINK)
    except OSError:
        return False
    try:
        return not _lock_file(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)  # which gives the lock back


def _lock_file(descriptor: int) -> bool:
    """Locks the open file unless another process has locked it; OSError where the system cannot lock it."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        if lock_descriptor(descriptor, blocking=False):
            return True
    return False


def _take(descriptor: int, folder: str | Path) -> None:
    """Locks the open file and writes this process's number into it; ValueError where another process has the lock."""
    try:
        taken = _lock_file(descriptor)
    except OSError as error:
        raise ValueError(f"cannot lock the run in {folder} ({error.strerror}): choose another --out") from error
    if not taken:
        holder = _holder(descriptor)
        raise ValueError(f"the run in {folder} is in use by {holder}; wait for it or choose another --out")
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b" " + json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())


def _holder(descriptor: int) -> str:
    """The process that holds the lock, in words, by the text of the lock file."""
    try:
        holder = parse_json(_text(descriptor))
        pid, host = holder["pid"], holder["host"]
    except (OSError, ValueError, TypeError, KeyError):  # the holder has the lock and has not written its name yet
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"


def _text(descriptor: int) -> bytes:
    """The text of an open lock file; without its first byte where that is locked against reading too."""
    try:
        return os.read(descriptor, 4096)
    except PermissionError:
        os.lseek(descriptor, 1, os.SEEK_SET)
        return os.read(descriptor, 4096)
