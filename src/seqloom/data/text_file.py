"""Reads text files, which may be compressed: NAME.gz, NAME.xz and NAME.zst (the extra `seqloom[zst]`)."""

import codecs
import gzip
import io
import itertools
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from seqloom.core.available_memory import require_memory
from seqloom.core.files import open_regular

COMPRESSED = (".gz", ".xz", ".zst")
TOKENS = ".tokens"
"""the ending of a file that holds the tokens of a text (`seqloom.data.archive`)"""
_AT_ONCE = 1 << 20
"""bytes that are read, or decompressed, at once"""
_ZSTANDARD_AT_ONCE = 1 << 12
"""bytes that zstandard takes at once, which become 128 MiB at most"""
_ADVICE = "cut it into several files, or say by data.separator what stands between its documents"
Stamp: TypeAlias = tuple[int, int]
"""the size of a file and the time of its last change, in nanoseconds"""


def suffix_of(path: Path) -> str:
    """The ending of a file's name in small letters, without that of a compression: .txt of A.TXT.gz."""
    return Path(path.stem if path.suffix.lower() in COMPRESSED else path.name).suffix.lower()


def stem_of(path: Path) -> str:
    """The name of a file without its ending and that of its compression."""
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def read_text_file(path: Path, stamp: Stamp | None = None) -> str:
    """The text of a file. ValueError as `text_parts`, and where it is empty or larger than the memory."""
    require_not_tokens(path)
    require_room(path)
    held: list[str] = []
    size = 0
    for part in text_parts(path, stamp):
        held.append(part)
        size += len(part)
        require_memory(f"reading {path}", size, _ADVICE)  # again as much, when the parts are joined
    text = "".join(held)
    if not text.strip():
        raise ValueError(f"{path}: empty")
    return text


def require_not_tokens(path: Path) -> None:
    """ValueError for a file of tokens, which is no text."""
    if suffix_of(path) == TOKENS:
        raise ValueError(
            f"{path} holds the tokens of a text (`seqloom data prepare`), which train, compare and study board take; "
            "this reads text: name the one that it was made of"
        )


def require_room(path: Path) -> None:
    """ValueError where the text of a file is larger than the memory."""
    with open_regular(path) as file:
        require_memory(f"reading {path}", 2 * os.fstat(file.fileno()).st_size, _ADVICE)


def plain(text: str) -> str:
    r"""The text without a byte-order mark and with `\n` line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def text_parts(path: Path, stamp: Stamp | None = None) -> Iterator[str]:
    r"""The text of a file, part by part, without a byte-order mark and with `\n` line ends.

    ValueError where it is binary, damaged or not UTF-8, and where its size and time are not those of `stamp`.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = io.IncrementalNewlineDecoder(decoder, translate=True)
    offset = 0
    begins = True
    for part in itertools.chain(byte_parts(path, stamp), (None,)):
        raw = part or b""
        if (nul := raw.find(0)) >= 0:
            raise ValueError(f"{path}: binary or UTF-16, not UTF-8 text (a NUL byte at offset {offset + nul})")
        incomplete = len(decoder.getstate()[0])  # bytes of a character that the part before began
        try:
            text = lines.decode(raw, final=part is None)
        except UnicodeDecodeError as error:
            wrong = offset - incomplete + error.start
            raise ValueError(f"{path}: not UTF-8 at byte offset {wrong}; convert it to UTF-8") from error
        offset += len(raw)
        if begins and text:
            text = text.removeprefix("\ufeff")
            begins = False
        if text:
            yield text


def split_text(parts: Iterable[str], separator: str) -> Iterator[str]:
    """What stands between the separators of a text that comes part by part; the last piece may be empty."""
    held: list[str] = []
    size = wanted = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size < wanted:
            continue
        *pieces, rest = "".join(held).split(separator)
        yield from pieces
        held = [rest]
        size = len(rest)
        wanted = 2 * size  # so that a piece of many parts is not searched again with each of them
    *pieces, rest = "".join(held).split(separator)
    yield from pieces
    yield rest


def stamp_of(path: Path) -> Stamp:
    """The size and the time of a file, which tell whether it was changed between two passes."""
    with open_regular(path) as file:
        return stamp_of_open(file)


def stamp_of_open(file: BinaryIO) -> Stamp:
    """As `stamp_of`, of an open file."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def require_unchanged(file: BinaryIO, path: Path, stamp: Stamp) -> None:
    """ValueError where an open file was changed since it had this size and time."""
    if stamp_of_open(file) != stamp:
        raise ValueError(f"{path} was changed while it was read: start again")


def byte_parts(path: Path, stamp: Stamp | None = None) -> Iterator[bytes]:
    """The contents of a file, decompressed, part by part. ValueError where it is damaged or changed."""
    suffix = path.suffix.lower()
    with open_regular(path) as file:
        if stamp is not None:
            require_unchanged(file, path, stamp)
        if suffix not in COMPRESSED:
            yield from iter(lambda: file.read(_AT_ONCE), b"")
            return
        zstandard = _zstandard(path) if suffix == ".zst" else None
        damaged = (OSError, EOFError, zlib.error, lzma.LZMAError, *([] if zstandard is None else [zstandard.ZstdError]))
        try:
            yield from _decompress(path, file, zstandard)
        except damaged as error:
            raise ValueError(f"{path}: damaged, or not compressed as its name says ({error})") from error


def _decompress(path: Path, file: BinaryIO, zstandard: Any) -> Iterator[bytes]:
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


def _zstandard(path: Path) -> Any:
    if find_spec("zstandard") is None:
        raise ValueError(f"{path}: reading it needs zstandard: pip install 'seqloom[zst]'")
    return import_module("zstandard")
