"""The cache: the folder of what is built once, and how a file gets there whole or not at all."""

import atexit
import functools
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def folder(cache: str | Path | None = None) -> Path:
    """The cache folder: the argument, else the environment's `SEQLOOM_CACHE`, else `~/.cache/seqloom`.

    Where the latter two cannot be written, or there is no home, a folder of this process, with one warning.
    """
    return Path(cache).expanduser() if cache else _usual(os.environ.get("SEQLOOM_CACHE") or "~/.cache/seqloom")


@functools.cache
def _usual(name: str) -> Path:
    try:
        path = Path(name).expanduser()
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except (OSError, RuntimeError) as error:  # the latter without a home
        reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".").lower()
    instead = tempfile.TemporaryDirectory(prefix="seqloom-")
    atexit.register(instead.cleanup)
    print(f"seqloom: the cache {name} cannot be written ({reason}); this run uses its own folder", file=sys.stderr)
    return Path(instead.name)


def write(path: Path, *parts: bytes | memoryview) -> None:
    """Writes a file whole or not at all; see `replacing`."""
    with replacing(path) as file:
        for part in parts:
            file.write(part)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to write under a temporary name next to `path`; then forces it to the disk and renames it.

    An error in between leaves what was at `path`: never half a file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself lasts only once the folder is on the disk
        entry = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)
