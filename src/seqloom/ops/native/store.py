"""Compiled libraries in the user's cache, written completely or not at all, and loaded only if they are unchanged.

A library file ends with the SHA-256 of all bytes before it, which the dynamic loader ignores. It is checked before
loading, because an incomplete or changed file could crash the process. Their folder must belong to the user, and no
other user may write into it, because a library is code: it is opened once, checked, and read by its descriptor.
"""

import ctypes
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seqloom.ops.native.compiler import Unavailable

_DIGEST = hashlib.sha256().digest_size
_TRUSTED = (0, os.geteuid()) if hasattr(os, "geteuid") else ()
"""the users whose libraries are loaded: the system's and this one"""
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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

    Raises Unavailable where the system cannot load it, and where others may change what is in its folder.
    """
    try:
        with _open_own_folder(path.parent) as folder:
            content = _content(path.name, folder)
            if content is None or hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
                return None
            return _load_library(path.name, folder)
    except OSError:
        return None


def save(path: Path, make: Callable[[Path], None]) -> None:
    """Stores what `make` writes into a temporary file, with its digest at the end, completely or not at all.

    Raises Unavailable where the cache is not writable, and where others may change what is in it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _open_own_folder(path.parent) as folder:
            library = _make_privately(path.name, make)
            _put(path.name, folder, library + hashlib.sha256(library).digest())
    except OSError as error:
        raise Unavailable(f"the cache {path.parent} is not writable ({error.strerror})") from error


@contextmanager
def _open_own_folder(path: Path) -> Iterator[int]:
    """Opens a folder that no other user can change; its files are then named relative to the descriptor.

    Raises Unavailable where there is another such folder, or a link.
    """
    advice = "SEQLOOM_CACHE may name another"
    if path.is_symlink():
        raise Unavailable(f"the cache {path} is a link: {advice}")
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(folder)
        if status.st_uid not in _TRUSTED:
            raise Unavailable(f"the cache {path} belongs to another user: {advice}")
        if status.st_mode & _BY_OTHERS:
            raise Unavailable(f"other users can write into the cache {path}: chmod 700 it, or {advice}")
        yield folder
    finally:
        os.close(folder)


def _content(name: str, folder: int) -> bytes | None:
    """The bytes of a library; None where it is no file of the user's own."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        own = stat.S_ISREG(status.st_mode) and status.st_uid in _TRUSTED and not status.st_mode & _BY_OTHERS
        return file.read() if own else None


def _load_library(name: str, folder: int) -> ctypes.CDLL:
    """The library of this name in an open folder, whose path may lead elsewhere since it was checked."""
    try:
        return ctypes.CDLL(f"/proc/self/fd/{folder}/{name}")
    except OSError as error:
        raise Unavailable(f"{name} cannot be loaded ({error})") from error


def _make_privately(name: str, make: Callable[[Path], None]) -> bytes:
    """What `make` writes, in a new folder that is the user's alone."""
    try:
        with tempfile.TemporaryDirectory(prefix="seqloom-") as temporary:
            part = Path(temporary) / name
            make(part)
            if not part.is_file():
                raise Unavailable("the compiler made no library")
            return part.read_bytes()
    except OSError as error:
        raise Unavailable(f"there is no temporary folder to compile in ({error.strerror})") from error


def _put(name: str, folder: int, data: bytes) -> None:
    """Writes a file of the folder under a temporary name, flushes it to disk and renames it."""
    part = f".{name}.{os.getpid()}-{secrets.token_hex(4)}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(part, dir_fd=folder)
        raise
