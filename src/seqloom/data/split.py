"""Chooses held-out documents by their content, so that neither their names nor their order matter."""

import hashlib
from collections.abc import Iterable, Iterator

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
    keys: list[bytes] = []
    sizes: dict[bytes, int] = {}
    with progress("held-out documents", documents.rows, "documents") as advance:
        for document in documents:
            key = hashlib.sha256(f"{seed}\n{document.text}".encode()).digest()
            keys.append(key)
            sizes[key] = sizes.get(key, 0) + len(document.text)
            advance()
    if len(sizes) <= 1:
        return _cut(next(iter(documents)), part)
    target = part * sum(sizes.values())
    chosen = set[bytes]()
    characters_held_out = 0
    for key in sorted(sizes):
        if characters_held_out >= target or len(chosen) == len(sizes) - 1:
            break
        if characters_held_out + sizes[key] <= 2 * target:
            chosen.add(key)
            characters_held_out += sizes[key]
    chosen = chosen or {min(sizes, key=lambda key: (sizes[key], key))}
    flags = bytes(key in chosen for key in keys)
    return side(documents, flags, 0), side(documents, flags, 1)


def side(documents: Documents, flags: bytes, number: int) -> Documents:
    """The documents whose byte in `flags` is `number`, in their order."""

    def start() -> Iterator[Document]:
        for document, flag in zip(documents, flags, strict=True):
            if flag == number:
                yield document

    return Documents(documents.source, start, flags.count(number))


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
