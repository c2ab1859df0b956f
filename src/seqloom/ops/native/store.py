"""Compiled libraries in the user's cache, written completely or not at all, and loaded only if they are unchanged.

A library file ends with the SHA-256 of all bytes before it, which the dynamic loader ignores. It is checked before
loading, because an incomplete or changed file could crash the process.
"""

import ctypes
import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from seqloom.ops.native.compiler import Unavailable

_DIGEST = hashlib.sha256().digest_size


def folder() -> Path:
    """`native` in the environment's SEQLOOM_CACHE, else in `seqloom` of XDG_CACHE_HOME or of ~/.cache.

    Raises Unavailable where there is none of them.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(os.environ.get("SEQLOOM_CACHE") or f"{home}/seqloom").expanduser() / "native"
    except RuntimeError:
        raise Unavailable("there is no home folder for the cache; SEQLOOM_CACHE may name another") from None


def load(path: Path) -> ctypes.CDLL | None:
    """The library in this file; None if it is missing, changed, or writable by other users.

    Raises Unavailable where the system cannot load it.
    """
    try:
        content, status = path.read_bytes(), path.stat()
    except OSError:
        return None
    unsafe = status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022
    if unsafe or hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(f"{path.name} cannot be loaded ({error})") from error


def save(path: Path, make: Callable[[Path], None]) -> None:
    """Stores what `make` writes into a temporary file: appends its digest, flushes it to disk, renames it to `path`.

    Raises Unavailable where the cache is not writable.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch(mode=0o700, exist_ok=False)
        make(part)
        part.chmod(0o700)
        with part.open("r+b") as file:
            digest = hashlib.sha256(file.read()).digest()
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise Unavailable(f"the cache {path.parent} is not writable ({error.strerror})") from error
    finally:
        if part.exists():
            part.unlink()
