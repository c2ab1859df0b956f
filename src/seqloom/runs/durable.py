"""Atomic writes of files: each is written under a temporary name, flushed to the disk (fsync), then renamed.

A temporary name ends in `.tmp-PID`; files that a dead process left under such a name are removed.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_TEMPORARY = re.compile(r".+\.tmp-(\d{1,9})")
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
    """Gives `path` new contents at one instant: a reader, and a crash, sees the old file or the new one."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    _writing.add(temporary)
    try:
        temporary.unlink(missing_ok=True)
        write_new(temporary, data)
        os.rename(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
        _writing.discard(temporary)


def write_json(path: Path, value: object) -> None:
    """Writes `value` as readable JSON, completely or not at all. Raises as `plain` does, and OSError."""
    plain(value)
    replace(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def sync(path: Path) -> None:
    """Forces a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        if match and entry not in _writing and not _lives_elsewhere(int(match[1])):
            discard(entry)


def _lives_elsewhere(pid: int) -> bool:
    """Whether the process number is that of another living process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process of another user
        return True
    return pid != os.getpid()
