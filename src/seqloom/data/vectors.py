"""Files of word vectors, in the text and binary formats of word2vec and that of GloVe; the content tells the format.

    word2vec, text      a line "words width", then a line for each word: the word and its numbers, separated by spaces
    word2vec, binary    the same first line; then, for each word: it, a space, its numbers as little-endian float32
    GloVe               as word2vec's text without the first line; a word may contain spaces

Where a word occurs twice, its first vector counts. A file is read as untrusted input: numbers that are missing, not
finite or too many raise a ValueError in one line, which names the line or word.

Source: Mikolov et al., word2vec (code.google.com/archive/p/word2vec), distance.c; Pennington et al., GloVe, EMNLP 2014.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, final

import numpy as np
import numpy.typing as npt

from seqloom.core.files import open_regular
from seqloom.data import cache

Vectors = npt.NDArray[np.float32]
"""(N, D)"""
WIDEST = 2**17
"""the most numbers of a vector"""
_LONGEST = 1 << 12
"""the most bytes of a word"""
_LINE = _LONGEST + 64 * WIDEST
_HEADER = re.compile(rb"(\d{1,12}) (\d{1,7})\s*")
_NUMBERS = re.compile(rb"[-+.\deEinfaINFA \t\r]*")


@final
@dataclass(frozen=True)
class VectorFile:
    """A file of word vectors; `words` is their number if the first line of the file says it."""

    path: Path
    form: Literal["text", "binary", "glove"]
    width: int
    words: int | None

    def read(self, wanted: Container[str] | None = None) -> tuple[list[str], Vectors]:
        """The words of the file, or only those in `wanted`, in its order, with their vectors (N, D)."""
        vectors: dict[str, Vectors] = {}
        with open_regular(self.path) as file:
            for word, raw, where in self._binary(file) if self.form == "binary" else self._text(file):
                if word not in vectors and (wanted is None or word in wanted):
                    vectors[word] = self._numbers(raw, where)
        stacked = np.stack([*vectors.values()]) if vectors else np.empty((0, self.width), np.float32)
        return list(vectors), stacked

    def _numbers(self, raw: bytes, where: str) -> Vectors:
        """The vector of one word.

        ValueError, which names `where` in the file it is, for anything but finite numbers.
        """
        try:
            binary = self.form == "binary"
            vector = np.frombuffer(raw, "<f4") if binary else np.array(raw.split(), np.float32)
        except ValueError:
            raise ValueError(f"{self.path}, {where}: not {self.width} numbers after a word") from None
        if not np.isfinite(vector).all():
            raise ValueError(f"{self.path}, {where}: a number that is not finite")
        return vector

    def _text(self, file: BinaryIO) -> Iterator[tuple[str, bytes, str]]:
        """Yields each word, its numbers as text, and its line."""
        if self.words is not None:
            file.readline(_LINE)
        count = 0
        for number, line in enumerate(iter(lambda: file.readline(_LINE), b""), 1 + (self.words is not None)):
            where = f"line {number}"
            parts = line.rstrip().rsplit(b" ", self.width)
            count += 1
            if self.words is not None and count > self.words:
                raise ValueError(f"{self.path}, {where}: the first line says {self.words:,} words, and here is another")
            size = line.rstrip().count(b" ")
            # a word of GloVe may contain spaces, but a number before those of the vector is an error
            if len(parts) <= self.width or (size > self.width and _is_number(parts[0].split(b" ")[-1])):
                numbers = len([part for part in line.split()[1:] if _is_number(part)])
                raise ValueError(f"{self.path}, {where}: {numbers} numbers, where the first has {self.width}")
            yield self._word(parts[0], where), b" ".join(parts[1:]), where
        self._require_all(count)

    def _binary(self, file: BinaryIO) -> Iterator[tuple[str, bytes, str]]:
        """Yields each word, its numbers as bytes, and the number of the word."""
        file.readline(_LINE)
        assert self.words is not None
        for number in range(self.words):
            where = f"word {number + 1:,}"
            name = bytearray()
            while (letter := file.read(1)) != b" ":
                if not letter:
                    self._require_all(number)
                if len(name) > _LONGEST:
                    raise ValueError(f"{self.path}, {where}: no word of vectors of width {self.width} begins here")
                name += letter
            raw = file.read(4 * self.width)
            if len(raw) < 4 * self.width:
                self._require_all(number)
            yield self._word(bytes(name).lstrip(b"\n"), where), raw, where
        if file.read(2).strip():
            raise ValueError(f"{self.path}: the first line says {self.words:,} words, and more follow")

    def _word(self, name: bytes, where: str) -> str:
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{self.path}, {where}: the word is not UTF-8 text") from None

    def _require_all(self, count: int) -> None:
        """ValueError where fewer words were read than the first line says."""
        if self.words is not None and count < self.words:
            raise ValueError(
                f"{self.path}: truncated: its first line says {self.words:,} words, and it ends after {count:,}"
            )


def open_vectors(path: str | Path) -> VectorFile:
    """Reads format and width from the first two lines. FileNotFoundError, or ValueError for a file without vectors."""
    path = Path(path).expanduser()
    try:
        with open_regular(path) as file:
            first, second = file.readline(_LINE), file.readline(_LINE)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such file of vectors") from None
    if not first.strip():
        raise ValueError(f"{path}: empty: there are no vectors in it")
    if first[:2] in (b"\x1f\x8b", b"PK", b"BZ"):
        raise ValueError(f"{path}: a packed file: unpack it first")
    header = _HEADER.fullmatch(first)
    if header is None:
        width = len(first.split(b" ")) - 1
        last = first.split()[-1]
        if not 1 <= width <= WIDEST or not _is_number(last):
            raise ValueError(f"{path}: not vectors of words, as word2vec and GloVe write them")
        return VectorFile(path, "glove", _width_of(first), None)
    words, width = int(header[1]), int(header[2])
    if not words or not 1 <= width <= WIDEST:
        raise ValueError(f"{path}: {words:,} words with {width:,} numbers each are no vectors")
    text_numbers = _NUMBERS.fullmatch(second.rstrip(b"\n").partition(b" ")[2])
    return VectorFile(path, "binary" if text_numbers is None else "text", width, words)


def write_vectors(path: Path, words: list[str], vectors: Vectors) -> None:
    """Writes a file in word2vec's format, binary if it is called .bin, else text; completely or not at all."""
    binary = path.suffix == ".bin"
    with cache.replacing(path) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            numbers = vector.astype("<f4").tobytes() if binary else " ".join(f"{x:.6g}" for x in vector).encode()
            file.write(word.encode() + b" " + numbers + b"\n")


def nearest(vectors: Vectors, number: int, count: int) -> list[tuple[int, float]]:
    """The `count` vectors with the largest cosine to vector `number`, without itself, as (number, cosine)."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), np.finfo(np.float32).tiny)
    cosines = vectors @ vectors[number] / lengths / lengths[number]
    cosines[number] = -np.inf
    order = np.argsort(-cosines, kind="stable")[: min(count, len(vectors) - 1)]
    return [(int(row), float(cosines[row])) for row in order]


def _width_of(line: bytes) -> int:
    """How many numbers a line ends with."""
    parts = line.split()
    return next((n for n, part in enumerate(reversed(parts[1:])) if not _is_number(part)), len(parts) - 1)


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
