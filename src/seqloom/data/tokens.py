"""A corpus as token ids, in one memory-mapped file that proves itself when it is opened.

    header, 64 bytes, little-endian: magic (8), version (4), bytes per id (4), ids (8), documents (8), sha256 (32)
    body: where each document starts (int64) | UTF-8 bytes of each document (int64) | ids (uint16 or uint32)

The sha256 is over the header's other fields and the body. Each document's ids are followed by one `<eos>`, which
belongs to it: document k is ids[starts[k] : starts[k + 1]], and `<eos>` is its last.
"""

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from seqloom.data import cache

EOS = 0
"""The id of `<eos>`, the one special token."""

_MAGIC, _VERSION = b"SEQLOOMT", 1
_FIELDS = struct.Struct("<8sIIQQ")
_HEADER = _FIELDS.size + 32


def id_type(vocab: int) -> np.dtype[Any]:
    """The smallest stored type that holds every id below `vocab`: uint16 or uint32."""
    return np.dtype("<u2" if vocab <= 1 << 16 else "<u4")


@final
@dataclass(frozen=True, eq=False)
class Tokens:
    """Token ids of some documents, end to end.

    ids: (N,) uint16 or uint32, each document's followed by `<eos>`; starts: (documents,) int64, where each begins;
    sizes: (documents,) int64, the UTF-8 bytes of each document's text (without `<eos>`), for bits per byte.
    """

    ids: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.starts)

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """(documents,) int64: one past each document's `<eos>`."""
        return np.append(self.starts[1:], np.int64(len(self.ids)))

    def save(self, path: str | Path) -> None:
        """Writes the file: under a temporary name, forced to the disk, renamed."""
        body = [self.starts.astype("<i8"), self.sizes.astype("<i8"), np.ascontiguousarray(self.ids)]
        fields = _FIELDS.pack(_MAGIC, _VERSION, self.ids.dtype.itemsize, len(self.ids), self.documents)
        digest = hashlib.sha256(fields)
        for part in body:
            digest.update(part.data)
        cache.write(Path(path), fields, digest.digest(), *(part.data for part in body))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Maps a file that `save` wrote, after reading all of it once against its checksum.

        Raises FileNotFoundError, or ValueError where the file is another kind, newer, truncated or changed.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no such token file")
        raw = np.asarray(np.memmap(path, dtype=np.uint8, mode="r")) if path.stat().st_size else np.empty(0, np.uint8)
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
