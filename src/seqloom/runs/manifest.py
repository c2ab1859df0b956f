"""The list of a checkpoint's files with their sizes and sums, by which damage is detected.

    manifest.json = {"files": {name: {"sha256": …, "size": …}}, "format": 1, "sha256": sum of the rest}

It is written last, as canonical JSON, and must be, byte for byte, what its own contents give: so one changed bit is
seen, in the manifest as in any file. `format` and `sha256` keep their meaning in every later format. Each name is that
of a regular file in the same folder: a path, a link, a FIFO or a device is never opened.
"""

import errno
import os
import re
from collections.abc import Mapping
from hashlib import file_digest, sha256
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TypedDict, cast, final

from seqloom.core.files import DOCUMENT, open_regular, parse_json, read_open
from seqloom.runs.durable import canonical, write_new

FORMAT = 1
NAME = "manifest.json"
PLAIN = r"\w[\w.-]*"
"""names of a checkpoint's files, which cannot be paths"""


@final
class Entry(TypedDict):
    """A file in the manifest."""

    sha256: str
    size: int


@final
class Damaged(ValueError):
    """The error of a damaged checkpoint: one line with the file and the damage."""


def seal(folder: Path, known: Mapping[str, Entry] | None = None) -> None:
    """Writes the manifest over all files that lie in `folder`; they must be on the disk already.

    The entries of `known` files are taken as they are given: those who wrote them have read them. OSError where one of
    them does not lie here.
    """
    known = known or {}
    for name in known:
        if not (folder / name).exists():
            raise OSError(errno.ENOENT, f"{name}, which another process wrote, is not there: all need the same folder")
    files = {path.name: known.get(path.name) or entry_of(path) for path in sorted(folder.iterdir())}
    write_new(folder / NAME, _seal_body({"files": files, "format": FORMAT}))


def entry_of(path: Path) -> Entry:
    """What a manifest says of a file."""
    return {"sha256": _sum(path), "size": path.stat().st_size}


def verify(folder: Path) -> dict[str, int]:
    """Checks that all files of the checkpoint are as they were written; returns their sizes in bytes.

    Raises Damaged, which names the first file that is not, and ValueError where a newer seqloom wrote it. Files that
    the manifest does not name are ignored.
    """
    names = sizes(folder)
    for name, entry in _read(folder).items():
        _check_sum(folder, name, entry["sha256"])
    return names


def sizes(folder: Path) -> dict[str, int]:
    """The checkpoint's files with their sizes in bytes, checked against the manifest; contents are not read.

    Raises as `verify` does.
    """
    files = _read(folder)
    for name, entry in files.items():
        _check_size(folder, name, entry["size"])
    return {name: entry["size"] for name, entry in files.items()}


def damage(folder: Path) -> dict[str, str]:
    """The damage of every file that the manifest names; "" for a file that is as it was written.

    Raises as `verify` does where the manifest itself cannot be read or trusted.
    """
    return {name: _damage(folder, name, entry) for name, entry in _read(folder).items()}


def _damage(folder: Path, name: str, entry: dict[str, Any]) -> str:
    """Why a file differs from its entry in the manifest; "" where it does not."""
    try:
        _check_size(folder, name, entry["size"])
        _check_sum(folder, name, entry["sha256"])
    except Damaged as error:
        return str(error).removeprefix(f"{folder}: {name} ")
    except OSError as error:
        return f"is unreadable ({error.strerror})"
    return ""


def read(folder: Path, name: str) -> bytes:
    """The contents of one document of the checkpoint, verified, the other files unread. Raises as `verify` does."""
    files = _read(folder)
    if name not in files:
        raise Damaged(f"{folder}: {name} is missing: {NAME} does not name it")
    _check_size(folder, name, files[name]["size"])
    _check_sum(folder, name, files[name]["sha256"])
    return _document(folder, name)


def _check_size(folder: Path, name: str, size: int) -> None:
    """Damaged unless the file has this size."""
    with _open(folder, name) as file:
        actual = os.fstat(file.fileno()).st_size
    if actual < size:
        raise Damaged(f"{folder}: {name} is truncated: {actual} of {size} bytes")
    if actual > size:
        raise Damaged(f"{folder}: {name} is altered: it is not what was written")


def _check_sum(folder: Path, name: str, digest: str) -> None:
    """Damaged unless the file has this sha256."""
    try:
        if _sum(folder / name) != digest:
            raise Damaged(f"{folder}: {name} is altered: it is not what was written")
    except OSError as error:
        raise _unreadable(folder, name, error) from error


def _open(folder: Path, name: str) -> BinaryIO:
    """Opens a file of the checkpoint; Damaged where it is missing or not a regular file."""
    try:
        return open_regular(folder / name, follow=False)
    except OSError as error:
        raise _unreadable(folder, name, error) from error
    except ValueError as error:
        raise Damaged(str(error)) from None


def _document(folder: Path, name: str) -> bytes:
    """The bytes of a JSON file of the checkpoint; Damaged where it is too large."""
    with _open(folder, name) as file:
        data = read_open(file, DOCUMENT)
    if data is None:
        raise Damaged(f"{folder}: {name} is too large: it has more than {DOCUMENT:,} bytes")
    return data


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of the manifest: size and checksum of each file."""
    text = _document(folder, NAME)
    try:
        body = parse_json(text)
    except ValueError:
        body = None
    if not isinstance(body, dict) or "sha256" not in body:
        raise Damaged(f"{folder}: {NAME} is unreadable")
    del body["sha256"]
    if not _is_sealed(body, text) or type(body.get("format")) is not int:
        raise Damaged(f"{folder}: {NAME} is altered: it is not what was written")
    if body["format"] > FORMAT:
        newer = f"format {body['format']}; this one reads up to {FORMAT}"
        raise ValueError(f"{folder} was written by a newer seqloom ({newer}): upgrade seqloom")
    files = body.get("files")
    if not isinstance(files, dict) or not files:
        raise Damaged(f"{folder}: {NAME} names no files")
    for name, entry in files.items():
        if not re.fullmatch(PLAIN, name) or name == NAME:
            raise Damaged(f"{folder}: {NAME} names {name[:60]!r}, which is no file of a checkpoint")
        if not isinstance(entry, dict) or type(entry.get("size")) is not int or "sha256" not in entry:
            raise Damaged(f"{folder}: {NAME} does not give the size and sum of {name}")
    return files


def _is_sealed(body: dict[str, Any], text: bytes) -> bool:
    """Whether `text` is, byte for byte, the manifest of this body."""
    try:
        return text == _seal_body(body)
    except ValueError:  # a number too large for a float
        return False


def _seal_body(body: dict[str, Any]) -> bytes:
    """The text of a manifest: the body with its own sha256, as canonical JSON."""
    return (canonical({**body, "sha256": sha256(canonical(body).encode()).hexdigest()}) + "\n").encode()


def _sum(path: Path) -> str:
    """The sha256 of a file, as hexadecimal digits."""
    with open_regular(path, follow=False) as file:
        return file_digest(cast("BufferedReader", file), "sha256").hexdigest()


def _unreadable(folder: Path, name: str, error: OSError) -> OSError | Damaged:
    """The error for a file that cannot be read: `Damaged` where the disk lost it, not where permission is denied."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return Damaged(f"{folder}: {name} is missing")
    if error.errno in (errno.EIO, errno.EISDIR, errno.EBADMSG):
        return Damaged(f"{folder}: {name} is unreadable ({error.strerror})")
    return error
