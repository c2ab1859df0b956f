"""The cache folder, for what is built once, and files that are written completely or not at all."""

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

from seqloom.core.files import sync


def folder(cache: str | Path | None = None) -> Path:
    """The cache folder: the argument, else the environment's `SEQLOOM_CACHE`, else `~/.cache/seqloom`.

    Where the folder of the environment or of the home cannot be written, it is a temporary folder of this process, and
    one warning is printed.
    """
    return Path(cache).expanduser() if cache else _default_folder(os.environ.get("SEQLOOM_CACHE") or "~/.cache/seqloom")


@functools.cache
def _default_folder(name: str) -> Path:
    """The folder of this name, or a temporary one where it cannot be written, with a warning."""
    try:
        path = Path(name).expanduser()
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".").lower()
    temporary = tempfile.TemporaryDirectory(prefix="seqloom-")
    atexit.register(temporary.cleanup)
    print(f"seqloom: the cache {name} cannot be written ({reason}); this run uses its own folder", file=sys.stderr)
    return Path(temporary.name)


def write(path: Path, *parts: bytes | memoryview) -> None:
    """Writes a file completely or not at all; see `replacing`."""
    with replacing(path) as file:
        for part in parts:
            file.write(part)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file next to `path` for writing; at the end flushes it to disk and renames it to `path`.

    After an error `path` is as it was before; it is never an incomplete file.
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
    sync(path.parent)
