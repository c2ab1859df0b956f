"""Cuts long texts into pieces that are encoded in parallel and in little memory; the ids are those of the whole text.

Encoding takes about 200 bytes of memory per token. A text whose tokenizer has no known seams is encoded as a whole.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from seqloom.data.seams import Seams

Group: TypeAlias = list[tuple[int, bool, str]]
"""pieces, as (number of the text, whether the piece is its last, piece)"""
SIZE = 1 << 16
"""the most bytes of a piece in UTF-8, unless one word is longer"""


def pieces(text: str, seams: Seams, size: int = SIZE) -> Iterator[str]:
    """Cuts a text at seams into pieces of at most `size` bytes, or more where there is no seam within as many.

    The ids of the pieces, concatenated, are the ids of the text, by a tokenizer that has these seams.
    """
    start = 0
    while start < len(text):
        end, seam = start, 0
        width = size
        while not seam and end < len(text):
            window = _cut_to(text[start : start + width], width)
            end = start + len(window)
            seam = len(window) if end == len(text) else seams.last(window)
            width *= 2
        yield text[start : start + seam]
        start += seam
    if not text:
        yield text


def _cut_to(text: str, size: int) -> str:
    """The beginning of a text, of at most `size` bytes, but of one character at least."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= size:
        return text
    return encoded[:size].decode("utf-8", "ignore") or text[:1]


def groups(texts: Iterable[str], seams: Seams | None, size: int = 1 << 21) -> Iterator[Group]:
    """Groups of pieces of about `size` characters; without `seams` a text is one piece."""
    group: Group = []
    characters = 0
    for number, text in enumerate(texts):
        parts = [text] if seams is None else list(pieces(text, seams))
        for piece_number, piece in enumerate(parts, 1):
            group.append((number, piece_number == len(parts), piece))
            characters += len(piece)
            if characters >= size:
                yield group
                group, characters = [], 0
    if group:
        yield group
