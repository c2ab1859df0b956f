"""Reads text files, which may be compressed: NAME.gz, NAME.xz and NAME.zst (the extra `seqloom[zst]`)."""

import gzip
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from seqloom.core.available_memory import require_memory
from seqloom.core.files import open_regular

COMPRESSED = (".gz", ".xz", ".zst")
TOKENS = ".tokens"
"""the ending of a file that holds the tokens of a text (`seqloom.data.archive`)"""
_AT_ONCE = 1 << 24
"""bytes that are decompressed before the memory is looked at again"""
_ZSTANDARD_AT_ONCE = 1 << 12
"""bytes that zstandard takes at once, which become 128 MiB at most"""
_ADVICE = "cut it into several files and use fewer of them"


def suffix_of(path: Path) -> str:
    """The ending of a file's name in small letters, without that of a compression: .txt of A.TXT.gz."""
    return Path(path.stem if path.suffix.lower() in COMPRESSED else path.name).suffix.lower()


def stem_of(path: Path) -> str:
    """The name of a file without its ending and that of its compression."""
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def read_text_file(path: Path) -> str:
    r"""The text of a file, with `\n` line ends. ValueError where it is binary, damaged, not UTF-8 or empty."""
    if suffix_of(path) == TOKENS:
        raise ValueError(
            f"{path} holds the tokens of a text (`seqloom data prepare`), which train, compare and study board take; "
            "this reads text: name the one that it was made of"
        )
    raw = _bytes(path)
    if (nul := raw.find(0)) >= 0:
        raise ValueError(f"{path}: binary or UTF-16, not UTF-8 text (a NUL byte at offset {nul})")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 at byte offset {error.start}; convert it to UTF-8") from error
    text = plain(text)
    if not text.strip():
        raise ValueError(f"{path}: empty")
    return text


def plain(text: str) -> str:
    r"""The text without a byte-order mark and with `\n` line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _bytes(path: Path) -> bytes:
    """The contents of a file, decompressed. ValueError where they are too large for the memory."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        require_memory(f"reading {path}", 2 * size, _ADVICE)
        if path.suffix.lower() not in COMPRESSED:
            return file.read(size)
        zstandard = _zstandard(path) if path.suffix.lower() == ".zst" else None
        damaged = (OSError, EOFError, zlib.error, lzma.LZMAError, *([] if zstandard is None else [zstandard.ZstdError]))
        try:
            return _join_parts(_parts(path, file, zstandard), path)
        except damaged as error:
            raise ValueError(f"{path}: damaged, or not compressed as its name says ({error})") from error


def _parts(path: Path, file: BinaryIO, zstandard: Any) -> Iterator[bytes]:
    """The decompressed contents of an open file, piece by piece."""
    if zstandard is None:
        with gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else lzma.LZMAFile(file) as stream:
            yield from iter(lambda: stream.read(_AT_ONCE), b"")
        return
    frame = None
    while part := file.read(_ZSTANDARD_AT_ONCE):
        while part:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(part)
            part = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:  # the package itself takes the end of a file for the end of a frame
        raise EOFError("the file ends inside a frame")


def _join_parts(parts: Iterable[bytes], path: Path) -> bytes:
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        require_memory(f"reading {path}", size, _ADVICE)  # again as much, when the parts are joined
    return b"".join(held)


def _zstandard(path: Path) -> Any:
    if find_spec("zstandard") is None:
        raise ValueError(f"{path}: reading it needs zstandard: pip install 'seqloom[zst]'")
    return import_module("zstandard")
