"""Files that are whole or absent: written under a temporary name, forced to the disk, then renamed.

A temporary name ends in `.tmp-PID`; what a dead process left behind under such a name is nobody's, and is removed.
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
_ours: set[Path] = set()
"""Temporary names that this very process is writing now; a restarted container often gets its old process number."""


def canonical(value: object) -> str:
    """JSON text that is the same for equal values: sorted keys, no spaces, ASCII. ValueError as of `plain`."""
    plain(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: object, place: str = "") -> None:
    """Raises ValueError, naming the dotted place, for what JSON does not give back: NaN, number keys, tensors.

    Tuples pass, and are read again as lists.
    """
    if value is None or isinstance(value, str | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place or 'value'} is {value}, which JSON cannot hold: use null (None)")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{place or 'value'} has the key {key!r}, but JSON keys are text: use {str(key)!r}")
            plain(item, f"{place}.{key}" if place else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            plain(item, f"{place}.{index}" if place else str(index))
    else:
        raise ValueError(f"{place or 'value'} is a {type(value).__name__}, which JSON cannot hold")


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that does not exist yet, and returns when it is on the disk. OSError as usual."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """Gives `path` new contents at one instant: a reader, and a crash, sees the old file or the new one."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    _ours.add(temporary)
    try:
        temporary.unlink(missing_ok=True)
        write_new(temporary, data)
        os.rename(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
        _ours.discard(temporary)


def write_json(path: Path, value: object) -> None:
    """Writes `value` as readable JSON, whole or not at all. ValueError as of `plain`, OSError as usual."""
    plain(value)
    replace(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def sync(path: Path) -> None:
    """Forces a file, or the names in a folder, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def claim(temporary: Path) -> None:
    """Says that this process is writing `temporary`, so that it does not take it for a leftover."""
    _ours.add(temporary)


def discard(path: Path) -> None:
    """Removes a file or a folder that has a name of no meaning, as far as the system lets us.

    A rest is harmless, and the next `remove_stale` tries again, so this raises nothing.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
    _ours.discard(path)


def remove_stale(folder: Path) -> None:
    """Removes what dead processes left half-written in `folder`."""
    for entry in list(folder.iterdir()):
        found = _TEMPORARY.fullmatch(entry.name)
        if found and entry not in _ours and not _lives_elsewhere(int(found[1])):
            discard(entry)


def _lives_elsewhere(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's process
        return True
    return pid != os.getpid()
