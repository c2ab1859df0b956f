"""Token ids of a text on the disk: shards of 256 MiB under one manifest, written in order, so that a kill loses one.

    folder/manifest.json   {format, width, complete, shards: [{ids, documents, sha256}, …], sha256}
    folder/00000.ids …     ids (uint16 or uint32) | ends (int64) | UTF-8 bytes (int64) of the documents that end in it

`ends` are counted in ids from the first shard on, after the end token. A shard is cut where it is full, also inside of
a document; all but the last have equally many ids, so that the ids of all are mapped as one array (`mapping`). The
manifest is replaced after each shard. What is built again, after a kill at any time, is the same bytes.
"""

import hashlib
import itertools
import json
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from seqloom.core import launch
from seqloom.core.files import read_json
from seqloom.core.progress import Say
from seqloom.data import cache
from seqloom.data.mapping import map_files
from seqloom.data.tokens import Ids, Tokens

SIZE = 256 << 20
"""bytes of ids in a shard; a multiple of `mapping.GRANULE`"""
FORMAT = 1
MANIFEST = "manifest.json"
EncodedDocuments = Iterator[tuple[Ids, int]]
"""documents as (ids with the end token last, UTF-8 bytes of the text)"""


@final
@dataclass(frozen=True)
class Shard:
    """One file of a manifest."""

    ids: int
    documents: int
    """that end in it"""
    sha256: str


@final
@dataclass(frozen=True)
class Manifest:
    """The shards of a text that are whole; `complete` where they are all of them."""

    width: int
    """bytes of an id"""
    complete: bool = False
    shards: tuple[Shard, ...] = ()

    def size(self, number: int) -> int:
        """The bytes of the file of a shard."""
        shard = self.shards[number]
        return self.width * shard.ids + 16 * shard.documents


def open_or_write(
    folder: Path, documents: Callable[[int], EncodedDocuments], dtype: np.dtype[Any], verify: bool | None = None
) -> Tokens:
    """The tokens in a folder; where shards are missing or damaged, these are written first.

    `documents` begins a pass at the document of a number. Of several processes on a machine one writes, and the first
    alone verifies the checksums, unless `verify` says otherwise.
    """
    verify = launch.local_rank() == 0 if verify is None else verify
    manifest = _whole_shards(folder, dtype.itemsize, verify, lambda line: None)
    if not manifest.complete:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            manifest = _whole_shards(folder, dtype.itemsize, verify, lambda line: print(line, file=sys.stderr))
            if not manifest.complete:
                manifest = _write_rest(folder, manifest, documents, dtype)
    return _open(folder, manifest)


def _open(folder: Path, manifest: Manifest) -> Tokens:
    """Maps the ids of complete shards, and reads where their documents end."""
    numbers = range(len(manifest.shards))
    raw = map_files([(_path(folder, number), manifest.width * manifest.shards[number].ids) for number in numbers])
    columns = [_columns(folder, manifest, number) for number in numbers]
    ends, sizes = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Tokens(raw.view(f"<u{manifest.width}"), np.append(np.int64(0), ends[:-1]), sizes)


def _write_rest(
    folder: Path, manifest: Manifest, documents: Callable[[int], EncodedDocuments], dtype: np.dtype[Any]
) -> Manifest:
    """Writes the shards after those of a manifest, and returns that of all."""
    for left in folder.glob(".*.part"):  # of a process that was killed, as this one holds the lock
        left.unlink()
    whole = manifest.shards
    last = [number for number, shard in enumerate(whole) if shard.documents][-1:]
    end = int(_columns(folder, manifest, last[0])[0][-1]) if last else 0
    position = sum(shard.ids for shard in whole)
    stream = _Stream(documents(sum(shard.documents for shard in whole)), position - end)
    shards = list(whole)
    while not stream.ended:
        shards.append(_write_shard(_path(folder, len(shards)), stream, position, dtype))
        position += shards[-1].ids
        manifest = Manifest(dtype.itemsize, stream.ended, tuple(shards))
        cache.write(folder / MANIFEST, _encode(manifest))
    return manifest


def _write_shard(path: Path, stream: "_Stream", position: int, dtype: np.dtype[Any]) -> Shard:
    """Writes one shard, whose first id has the number `position` in the text."""
    ends, sizes = array("q"), array("q")
    digest = hashlib.sha256()
    count = 0
    with cache.replacing(path) as file:
        while not stream.ended and count < SIZE // dtype.itemsize:
            part, size = stream.take(SIZE // dtype.itemsize - count)
            count += len(part)
            raw = np.ascontiguousarray(part, dtype).data
            digest.update(raw)
            file.write(raw)
            if size is not None:
                ends.append(position + count)
                sizes.append(size)
        for column in (ends, sizes):
            raw = np.asarray(column, "<i8").data
            digest.update(raw)
            file.write(raw)
    return Shard(count, len(ends), digest.hexdigest())


@final
class _Stream:
    """The ids of documents that come one by one, from which a shard takes as many as it has room for.

    The first `skipped` ids are in earlier shards.
    """

    def __init__(self, documents: EncodedDocuments, skipped: int) -> None:
        self._documents = documents
        self._ids: Ids
        self._size: int
        self._advance()
        self._ids = self._ids[skipped:]

    def take(self, room: int) -> tuple[Ids, int | None]:
        """Further ids of one document, at most `room`, and its UTF-8 bytes if they are its last."""
        part = self._ids[:room]
        self._ids = self._ids[room:]
        if len(self._ids):
            return part, None
        size = self._size
        self._advance()
        return part, size

    def _advance(self) -> None:
        document = next(self._documents, None)
        self.ended = document is None
        self._ids, self._size = (np.empty(0, np.uint16), 0) if document is None else document


def _whole_shards(folder: Path, width: int, verify: bool, say: Say) -> Manifest:
    """The manifest of a folder, up to the first shard that is missing, cut or altered, which is said."""
    empty = Manifest(width)
    if not (folder / MANIFEST).exists():
        return empty
    try:
        manifest = _decode(read_json(folder / MANIFEST))
    except (ValueError, KeyError, TypeError):
        say(f"{folder / MANIFEST}: damaged; building it again")
        return empty
    if manifest.width != width:
        return empty
    whole = list(itertools.takewhile(lambda n: _is_whole(folder, manifest, n, verify), range(len(manifest.shards))))
    if len(whole) == len(manifest.shards):
        if not manifest.complete:
            say(f"{folder}: going on after {len(whole)} shards of tokens")
        return manifest
    say(f"{_path(folder, len(whole))}: missing or damaged; building it again")
    return Manifest(width, False, manifest.shards[: len(whole)])


def _is_whole(folder: Path, manifest: Manifest, number: int, verify: bool) -> bool:
    """Whether the file of a shard is there, with its size, and with its checksum where that is verified."""
    path = _path(folder, number)
    if not path.is_file() or path.stat().st_size != manifest.size(number):
        return False
    if not verify:
        return True
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == manifest.shards[number].sha256


def _columns(folder: Path, manifest: Manifest, number: int) -> npt.NDArray[np.int64]:
    """(2, documents): the ends and the UTF-8 bytes of the documents that end in a shard."""
    shard = manifest.shards[number]
    raw = np.fromfile(_path(folder, number), "<i8", 2 * shard.documents, offset=manifest.width * shard.ids)
    return raw.reshape(2, shard.documents)


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.ids"


def _encode(manifest: Manifest) -> bytes:
    fields = {"format": FORMAT, **asdict(manifest)}
    return json.dumps({**fields, "sha256": _digest(fields)}, indent=1).encode()


def _decode(fields: dict[str, Any]) -> Manifest:
    """ValueError, KeyError or TypeError where a manifest is altered or of another format."""
    if fields.pop("sha256") != _digest(fields) or fields.pop("format") != FORMAT:
        raise ValueError("altered, or of another format")
    shards = tuple(Shard(**shard) for shard in fields["shards"])
    return Manifest(fields["width"], fields["complete"], shards)


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
