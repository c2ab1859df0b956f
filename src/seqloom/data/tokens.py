"""A corpus as token ids, in one memory-mapped file whose checksum is verified when it is opened.

    header, 64 bytes, little-endian: magic (8), version (4), bytes per id (4), ids (8), documents (8), sha256 (32)
    body: where each document starts (int64) | UTF-8 bytes of each document (int64) | ids (uint16 or uint32)

The sha256 is over the other fields of the header and the body. A document ends with the tokenizer's end token, which is
called `<eos>` here whatever its name and id: document k is ids[starts[k] : starts[k + 1]], and its last id is `<eos>`.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from seqloom.data import cache

_MAGIC, _VERSION = b"SEQLOOMT", 1
_FIELDS = struct.Struct("<8sIIQQ")
_HEADER = _FIELDS.size + 32

Ids = npt.NDArray[Any]
"""token ids of any integer type"""


def id_type(vocab: int) -> np.dtype[Any]:
    """The smallest stored type that holds every id below `vocab`: uint16 or uint32."""
    return np.dtype("<u2" if vocab <= 1 << 16 else "<u4")


@final
@dataclass(frozen=True, eq=False)
class Tokens:
    """Token ids of documents, concatenated.

    ids: (N,) uint16 or uint32, with `<eos>` after each document; starts: (documents,) int64, the index of the first id
    of each document; sizes: (documents,) int64, the UTF-8 bytes of each text without `<eos>`, for bits per byte.
    """

    ids: Ids
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64] | None = None
    """the number of the label of each example; an example is `texts` consecutive documents"""
    texts: int = 1
    unknown: int | None = None
    """the id of the unknown token, if the tokenizer has one"""
    sources: tuple[tuple[int, float], ...] = ()
    """of several sources, the documents of each and its weight; documents are in the order of sources"""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def eos(self) -> int:
        """The id of `<eos>`: the last of every document."""
        return int(self.ids[-1])

    @property
    def lost_tokens(self) -> int:
        """The number of unknown tokens, whose text is lost."""
        return 0 if self.unknown is None else int((self.ids == self.unknown).sum())

    @property
    def documents(self) -> int:
        """The number of documents."""
        return len(self.starts)

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """(documents,) int64: the index after the `<eos>` of each document."""
        return np.append(self.starts[1:], np.int64(len(self.ids)))

    def by_source(self) -> "Iterator[Tokens]":
        """The tokens of each source."""
        first = 0
        for documents, _ in self.sources:
            chosen = slice(first, first + documents)
            begin, end = self.starts[first], self.ends[first + documents - 1]
            yield Tokens(self.ids[begin:end], self.starts[chosen] - begin, self.sizes[chosen], unknown=self.unknown)
            first += documents

    def save(self, path: str | Path) -> None:
        """Writes the file, completely or not at all."""
        fields = _FIELDS.pack(_MAGIC, _VERSION, self.ids.dtype.itemsize, len(self.ids), self.documents)
        digest = hashlib.sha256(fields)
        with cache.replacing(Path(path)) as file:
            file.seek(_HEADER)
            for column in (self.starts.astype("<i8"), self.sizes.astype("<i8"), self.ids):
                digest.update(column.data)
                file.write(column.data)
            file.seek(0)
            file.write(fields + digest.digest())

    @classmethod
    def open(cls, path: str | Path, first: int = 0, length: int | None = None) -> Self:
        """Maps a file that `save` wrote, after verifying its checksum; or the `length` bytes of one from byte `first`.

        Raises FileNotFoundError, or ValueError where it is not such a file, of a newer format, truncated or changed.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no such token file")
        bytes_ = path.stat().st_size - first if length is None else length
        mapped = np.memmap(path, dtype=np.uint8, mode="r", offset=first, shape=(bytes_,)) if bytes_ > 0 else ()
        raw = np.asarray(mapped, dtype=np.uint8)
        magic = raw[: len(_MAGIC)].tobytes()
        if magic != _MAGIC[: len(magic)]:
            raise ValueError(f"{path}: not a token file of seqloom (it begins with {magic!r})")
        if len(raw) < _HEADER:
            raise ValueError(f"{path}: truncated: {len(raw)} bytes are less than a header; build it again")
        fields = raw[: _FIELDS.size].tobytes()
        _, version, width, count, documents = _FIELDS.unpack(fields)
        if version > _VERSION:
            raise ValueError(f"{path}: written by a newer seqloom (format {version}; this one reads {_VERSION})")
        size = _HEADER + 16 * documents + width * count
        if version != _VERSION or width not in (2, 4) or len(raw) != size:
            raise ValueError(f"{path}: truncated or damaged: {len(raw)} bytes where its header says {size}")
        digest = hashlib.sha256(fields)
        digest.update(raw[_HEADER:].data)
        if digest.digest() != raw[_FIELDS.size : _HEADER].tobytes():
            raise ValueError(f"{path}: damaged: its content does not match its checksum; build it again")
        starts, sizes = raw[_HEADER : _HEADER + 16 * documents].view("<i8").reshape(2, documents)
        return cls(raw[_HEADER + 16 * documents :].view(f"<u{width}"), starts, sizes)


def stored_checksum(path: str | Path, first: int = 0) -> str:
    """The checksum in the header of a file, or of one that lies in it from byte `first`; "" where it has no header."""
    with open(path, "rb") as file:
        file.seek(first)
        return file.read(_HEADER)[_FIELDS.size :].hex()
