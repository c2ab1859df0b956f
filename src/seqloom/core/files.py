"""Reads files from elsewhere as untrusted input: only regular files of bounded size, and JSON of bounded depth.

A FIFO would block, `/dev/zero` would never end, and a document of gigabytes would take as much memory: all of these
raise a ValueError in one line. A missing file still raises FileNotFoundError, a forbidden one PermissionError.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

DOCUMENT = 16 << 20
"""the most bytes of a document that is read at once, such as settings; parsed JSON takes about 20 times the memory"""
DEPTH = 100
"""how deep a JSON document may be nested"""

_AT_ONCE = 1 << 16
"""bytes that are read at once beyond the size of a file"""
_FLAGS = ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY")
GUARDS = sum(getattr(os, name, 0) for name in _FLAGS)
"""flags of opening a file that nobody is trusted to have made; Windows has others than Linux"""
NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)
_MODES = {"rb": os.O_RDONLY, "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT}
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


def open_regular(path: str | Path, mode: Literal["rb", "ab"] = "rb", *, follow: bool = True) -> BinaryIO:
    """Opens a regular file to read ("rb") or to append ("ab", which creates a missing file). Never blocks.

    Raises ValueError, in one line, for a folder, a FIFO, a socket or a device, and unless `follow` for a symbolic link;
    none of these is opened. Raises OSError as `open` does.
    """
    path = Path(path)
    _require_path(path)
    try:
        _require_regular(path, os.stat(path, follow_symlinks=follow))
    except FileNotFoundError:
        if mode == "rb":
            raise
    descriptor = os.open(path, _MODES[mode] | GUARDS | (0 if follow else NOT_A_LINK), 0o666)
    try:
        _require_regular(path, os.fstat(descriptor))  # the path may have been replaced since it was checked
        return os.fdopen(descriptor, mode, buffering=0 if mode == "ab" else -1)
    except BaseException:
        os.close(descriptor)
        raise


def sync(path: Path) -> None:
    """Forces a file, or the names in a folder, to the disk; a rename survives a power failure only then."""
    if os.name != "posix" and path.is_dir():
        return  # Windows opens no folder
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_own(folder: Path, name: str) -> Path:
    """The path of a file or folder below `folder`. ValueError where a part of `name` is a symbolic link.

    What is written below a folder from elsewhere must not land in another one.
    """
    path = folder
    for part in Path(name).parts:
        path /= part
        if path.is_symlink():
            raise ValueError(f"{path} is a link: put what it leads to there itself, or choose another --out")
    return path


def read_bytes(path: str | Path, limit: int = DOCUMENT, *, follow: bool = True) -> bytes:
    """The contents of a regular file. Raises as `open_regular` does, and ValueError for more than `limit` bytes."""
    with open_regular(path, follow=follow) as file:
        data = read_open(file, limit)
    if data is None:
        raise ValueError(f"{path} is too large: it has more than {limit:,} bytes")
    return data


def read_open(file: BinaryIO, limit: int) -> bytes | None:
    """The contents of an open file, in as much memory as it has bytes; None for more than `limit` bytes.

    A read of `limit` bytes would allocate them all, whatever the size of the file.
    """
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        return None
    data = file.read(size + 1)
    while len(data) <= limit and (more := file.read(_AT_ONCE)):  # it grew, or the system does not know its size
        data += more
    return data if len(data) <= limit else None


def read_text(path: str | Path, limit: int = DOCUMENT) -> str:
    """The text of a UTF-8 file. Raises as `read_bytes` does, and ValueError where the bytes are not UTF-8."""
    data = read_bytes(path, limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start:,})") from None


def read_json(path: str | Path, limit: int = DOCUMENT, *, follow: bool = True, infinite: bool = False) -> Any:
    """The value in a JSON file; see `parse_json`.

    Raises as `read_bytes` does, and ValueError, with the path, for what is not JSON.
    """
    data = read_bytes(path, limit, follow=follow)
    try:
        return parse_json(data, infinite=infinite)
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON ({error}): put it back as it was written") from None


def parse_json(data: bytes | str, *, infinite: bool = False) -> Any:
    """The value of a JSON text; `infinite` allows Infinity, which older transformers write.

    ValueError, in a few words, for what is not JSON and for nesting deeper than DEPTH.
    """
    try:
        value = json.loads(data, parse_constant=_infinity if infinite else _reject_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except RecursionError:
        raise ValueError(f"nested more than {DEPTH} deep") from None
    level = [value]  # the lists and objects at one depth
    for _ in range(DEPTH):
        level = [item for outer in level for item in _items(outer)]
        if not level:
            return value
    raise ValueError(f"nested more than {DEPTH} deep")


def _items(value: object) -> list[Any]:
    """The entries of a list or an object that are lists or objects themselves."""
    if isinstance(value, dict):
        value = list(value.values())
    return [item for item in value if isinstance(item, dict | list)] if isinstance(value, list) else []


def _reject_constant(name: str) -> NoReturn:
    """Raises ValueError for NaN and Infinity, which Python's parser accepts and JSON does not have."""
    raise ValueError(f"{name} is no JSON number")


def _infinity(name: str) -> float:
    """Infinity as a number; raises ValueError for NaN."""
    return float("inf") if name == "Infinity" else _reject_constant(name)


def _require_path(path: Path) -> None:
    if "\0" in str(path):
        raise ValueError(f"{str(path)!r} is no path: it holds a null character")


def _require_regular(path: Path, status: os.stat_result) -> None:
    """Raises ValueError, which names the kind of the file, unless it is a regular one."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        name = _KINDS.get(kind, "something else")
        raise ValueError(f"{path} is {name}, not a regular file")
