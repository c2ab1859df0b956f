"""One process a run: a lock that the kernel releases when its holder dies, however it dies.

The file `lock` in the run's folder stays; being locked is a state of the open file (flock), not of its existence. Its
text, the holder's process number and machine, serves the message only.
"""

import fcntl
import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seqloom.core.files import parse_json
from seqloom.runs.layout import make_folder

_held: set[int] = set()


def _forget_after_fork() -> None:
    # A forked child shares the open file. If it stayed open there, the lock would outlive the parent.
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_forget_after_fork)


@contextmanager
def lock(folder: str | Path) -> Iterator[None]:
    """Holds the run in `folder` for this process; makes the folder when it is not there.

    ValueError, in one line, when another process (or this one, elsewhere) holds it, or the folder cannot be written.
    """
    path = Path(folder) / "lock"
    make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise ValueError(f"cannot write in {folder} ({error.strerror}): choose another --out") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file: remove it or choose another --out")
    _held.add(descriptor)
    owner = os.getpid()
    try:
        _take(descriptor, folder)
        yield
    finally:
        if os.getpid() == owner:
            _held.discard(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open too
            os.close(descriptor)


def held(folder: str | Path) -> bool:
    """Whether a process holds the run in `folder` now; changes nothing."""
    try:
        descriptor = os.open(Path(folder) / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _take(descriptor: int, folder: str | Path) -> None:
    """Locks the open file and writes this process's number into it; ValueError where another process has the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(os.pread(descriptor, 4096, 0))
        raise ValueError(f"the run in {folder} is in use by {holder}; wait for it or choose another --out") from None
    except OSError as error:
        raise ValueError(f"cannot lock the run in {folder} ({error.strerror}): choose another --out") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)


def _holder(text: bytes) -> str:
    """The process that holds the lock, in words, given the text of the lock file."""
    try:
        holder = parse_json(text)
        pid, host = holder["pid"], holder["host"]
    except (ValueError, TypeError, KeyError):  # the holder has the lock and has not written its name yet
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"
