"""Atomic writes of files: each is written under a temporary name, flushed to the disk (fsync), then renamed.

A temporary name ends in `.tmp-TOKEN-PID`, so that processes of machines that share a folder have different names; files
that a dead process left under such a name are removed. A link, a FIFO or a device in the place of a file is replaced
and not written to, so that a folder from elsewhere cannot direct a write to another file. Files that grow in place are
opened by `core.files.open_regular`.
"""

import json
import math
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from seqloom.core.files import sync

ASKS = os.name == "posix"
"""whether signal 0 asks for a process; on Windows it is an event that a console sends"""
DAY = 24 * 60 * 60
_TEMPORARY = re.compile(r".+\.tmp-(?:[0-9a-f]{8}-)?(\d{1,9})")
_TOKEN = uuid.uuid4().hex[:8]
_writing: set[Path] = set()
"""Temporary names that this process writes now. The number in a name is not enough: a restarted container often gives a
process the number that a dead one had."""


def canonical(value: object) -> str:
    """JSON text that is the same for equal values: sorted keys, no spaces, ASCII. Raises ValueError as `plain` does."""
    plain(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: object, field: str = "") -> None:
    """Raises ValueError, naming the dotted field, for values that JSON cannot restore: NaN, number keys, tensors.

    Tuples are allowed, and read as lists.
    """
    if value is None or isinstance(value, str | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{field or 'value'} is {value}, which JSON cannot hold: use null (None)")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{field or 'value'} has the key {key!r}, but JSON keys are text: use {str(key)!r}")
            plain(item, f"{field}.{key}" if field else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            plain(item, f"{field}.{index}" if field else str(index))
    else:
        raise ValueError(f"{field or 'value'} is a {type(value).__name__}, which JSON cannot hold")


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that does not exist yet, and returns when it is on the disk. OSError where that fails."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """Gives `path` new contents at one instant: a reader, and a crash, sees the old file or the new one.

    OSError, which names `path`, where that fails; the old file is then as it was.
    """
    with _temporary(path) as temporary:
        write_new(temporary, data)
        os.replace(temporary, path)
        sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """As `replace`, in UTF-8; half a surrogate pair, which UTF-8 does not have, becomes its escape."""
    replace(path, text.encode(errors="backslashreplace"))


@contextmanager
def making_folder(folder: Path) -> Iterator[Path]:
    """A new folder under a temporary name, which becomes `folder` when the block ends without an error.

    ValueError where `folder` is there and has content.
    """
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise ValueError(f"{folder} is there already: choose a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        os.replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for contents too large for memory, which `path` gets when the block ends without an error.

    OSError as `replace` has it.
    """
    with _temporary(path) as temporary:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync(path.parent)


def open_new(path: Path) -> BinaryIO:
    """A new empty file in place of what is at `path`, for a log that is read while it grows. OSError as `open` has."""
    path.unlink(missing_ok=True)
    return path.open("xb")


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A free temporary name next to `path`; what is there at the end is removed. Errors name `path` instead."""
    temporary = path.with_name(f"{path.name}.tmp-{_TOKEN}-{os.getpid()}")
    _writing.add(temporary)
    try:
        temporary.unlink(missing_ok=True)
        yield temporary
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        _writing.discard(temporary)


def write_json(path: Path, value: object) -> None:
    """Writes `value` as readable JSON, completely or not at all. Raises as `plain` does, and OSError."""
    plain(value)
    replace(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def claim(temporary: Path) -> None:
    """Marks `temporary` as being written by this process, so that it is not removed as a leftover."""
    _writing.add(temporary)


def discard(path: Path) -> None:
    """Removes a temporary file or folder, as far as the system allows.

    It raises nothing: what remains is harmless, and the next `remove_stale` tries again.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
    _writing.discard(path)


def remove_stale(folder: Path) -> None:
    """Removes what dead processes left half-written in `folder`."""
    for entry in list(folder.iterdir()):
        match = _TEMPORARY.fullmatch(entry.name)
        if match and entry not in _writing and not _in_use(entry, int(match[1])):
            discard(entry)


def _in_use(entry: Path, pid: int) -> bool:
    """Whether another living process has this number; where signal 0 would end it, whether the entry is of today."""
    if not ASKS:
        return pid != os.getpid() and time.time() - entry.stat(follow_symlinks=False).st_mtime < DAY
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process of another user
        return True
    return pid != os.getpid()
