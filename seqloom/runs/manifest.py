"""The list of a checkpoint's files with their sizes and sums, by which damage is told from health.

    manifest.json = {"files": {name: {"sha256": …, "size": …}}, "format": 1, "sha256": sum of the rest}

It is written last, as canonical JSON, and must be, byte for byte, what its own contents give: so one changed bit is
seen, in the manifest as in any file. `format` and `sha256` keep their meaning in every later format.
"""

import errno
import json
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, final

from seqloom.runs.durable import canonical, write_new

FORMAT = 1
NAME = "manifest.json"


@final
class Damaged(ValueError):
    """A checkpoint that cannot be trusted: one line with the file and what is wrong with it."""


def seal(folder: Path) -> None:
    """Writes the manifest over all files that lie in `folder`; they must be on the disk already."""
    files = {path.name: {"sha256": _sum(path), "size": path.stat().st_size} for path in sorted(folder.iterdir())}
    write_new(folder / NAME, _sealed({"files": files, "format": FORMAT}))


def verify(folder: Path) -> list[str]:
    """The names of the checkpoint's files, all of which are as they were written.

    `Damaged` naming the first that is not. ValueError when a newer seqloom wrote it. A file that the manifest does not
    name is none of our business.
    """
    body = _read(folder)
    if body["format"] > FORMAT:
        newer = f"format {body['format']}; this one reads up to {FORMAT}"
        raise ValueError(f"{folder} was written by a newer seqloom ({newer}): upgrade seqloom")
    for name, written in body["files"].items():
        _check(folder, name, written["size"], written["sha256"])
    return list(body["files"])


def _check(folder: Path, name: str, size: int, digest: str) -> None:
    path = folder / name
    try:
        found = path.stat().st_size
        if found < size:
            raise Damaged(f"{folder}: {name} is truncated: {found} of {size} bytes")
        if found > size or _sum(path) != digest:
            raise Damaged(f"{folder}: {name} is altered: it is not what was written")
    except OSError as error:
        raise _unreadable(folder, name, error) from error


def _read(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / NAME).read_bytes()
    except OSError as error:
        raise _unreadable(folder, NAME, error) from error
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict) or "sha256" not in body:
        raise Damaged(f"{folder}: {NAME} is unreadable")
    del body["sha256"]
    if text != _sealed(body) or not isinstance(body.get("format"), int):
        raise Damaged(f"{folder}: {NAME} is altered: it is not what was written")
    return body


def _sealed(body: dict[str, Any]) -> bytes:
    return (canonical({**body, "sha256": sha256(canonical(body).encode()).hexdigest()}) + "\n").encode()


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _unreadable(folder: Path, name: str, error: OSError) -> OSError | Damaged:
    """Damage where the disk lost or cannot give the file; a forbidden or unreachable file is not damaged."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return Damaged(f"{folder}: {name} is missing")
    if error.errno in (errno.EIO, errno.EISDIR, errno.EBADMSG):
        return Damaged(f"{folder}: {name} is unreadable ({error.strerror})")
    return error
