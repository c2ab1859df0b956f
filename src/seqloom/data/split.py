"""Chooses held-out documents by their content, so that neither their names nor their order matter."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from seqloom.core.progress import progress
from seqloom.core.seeds import require_seed
from seqloom.data.documents import Document, Documents


def hold_out(documents: Iterable[Document], part: float, seed: int) -> tuple[Documents, Documents]:
    """Splits documents into training and held-out ones, which have a share of about `part` of all characters.

    Documents are held out in the order of sha256(seed, text) until `part` of all characters is reached. A document that
    would bring it above twice `part` is skipped; if all would, the shortest is held out. Equal texts stay
    together. A single text is cut instead: its last `part`, from the next space on, is held out. Both results keep the
    order of the documents.

    The documents are read once here, and only hashes and sizes are stored; every iteration over a result reads them
    again. Raises ValueError where one result would be empty.
    """
    if not 0 < part < 1:
        raise ValueError(f"held_out must lie between 0 and 1, and is {part}")
    require_seed(seed)
    documents = Documents.of(documents)
    digests = bytearray()
    lengths = array("q")
    with progress("held-out documents", documents.rows, "documents") as advance:
        for document in documents:
            digests += hashlib.sha256(f"{seed}\n{document.text}".encode()).digest()
            lengths.append(len(document.text))
            advance()
    sizes = np.array(lengths)
    text_of, total = _sum_equal(digests, sizes)
    if len(total) == 1:
        return _cut(next(iter(documents)), part)
    flags = _choose(total, part)[text_of]
    train, held_out = (side(documents, flags.tobytes(), number, int(sizes[flags == number].sum())) for number in (0, 1))
    return train, held_out


def side(documents: Documents, flags: bytes, number: int, characters: int | None = None) -> Documents:
    """The documents whose byte in `flags` is `number`, in their order; `characters`, if known, is their number."""

    def start() -> Iterator[Document]:
        for document, flag in zip(documents, flags, strict=True):
            if flag == number:
                yield document

    return Documents(documents.source, start, flags.count(number), characters=characters)


def _sum_equal(digests: bytearray, sizes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each document the number of its text, in the order of digests (32 bytes each), and the sizes of each text."""
    words = np.frombuffer(digests, ">u8").reshape(-1, 4)
    order = np.lexsort(words.T[::-1])
    is_new = np.append(True, (words[order[1:]] != words[order[:-1]]).any(1))
    text_of = np.empty(len(order), np.int64)
    text_of[order] = np.cumsum(is_new) - 1
    return text_of, np.add.reduceat(sizes[order], np.flatnonzero(is_new))


def _choose(sizes: npt.NDArray[np.int64], part: float) -> npt.NDArray[np.uint8]:
    """1 for each text that is held out, of texts of these sizes in the order in which they are to be."""
    target = part * int(sizes.sum())
    chosen = np.zeros(len(sizes), np.uint8)
    count = characters = 0
    for number, size in enumerate(map(int, sizes)):
        if characters >= target or count == len(sizes) - 1:
            break
        if characters + size <= 2 * target:
            chosen[number] = 1
            count += 1
            characters += size
    if not count:
        chosen[np.argmin(sizes)] = 1
    return chosen


def _cut(document: Document, part: float) -> tuple[Documents, Documents]:
    """A single text in two: all but about its last `part`, up to a space, and the rest."""
    text = document.text
    cut = round(len(text) * (1 - part))
    while cut < len(text) and not text[cut].isspace():
        cut += 1
    if not text[cut:].strip():  # the rest of the text is one long word without a space
        cut = round(len(text) * (1 - part))
    head, tail = text[:cut].rstrip(), text[cut:].lstrip()
    if not head or not tail:
        raise ValueError(f"{document.name}: too short to hold out {part:.0%} of it ({len(text)} characters); add text")
    held_out = Document(f"{document.name} (the last {part:.0%})", tail)
    return Documents.of([Document(document.name, head)]), Documents.of([held_out])
