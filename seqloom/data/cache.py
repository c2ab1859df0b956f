"""Where built things are kept between runs, and how a file gets there whole or not at all."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path


def folder(cache: str | Path | None = None) -> Path:
    """The cache folder: the argument, else the environment's `SEQLOOM_CACHE`, else `~/.cache/seqloom`."""
    return Path(cache or os.environ.get("SEQLOOM_CACHE") or "~/.cache/seqloom").expanduser()


def write(path: Path, *parts: bytes | memoryview) -> None:
    """Writes a file under a temporary name beside it, forces it to the disk, then renames it: never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        _write_through(part, parts)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself lasts only once the folder is on the disk
        entry = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def _write_through(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    with path.open("xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
