"""Long texts cut into pieces, so that all cores encode them and progress can be seen, without changing one id."""

import re
from collections.abc import Iterable, Iterator

# GPT-2's pattern starts a new word at every single blank between visible ASCII characters, so cutting there is exact.
_SEAM = re.compile(r"(?<=[!-~]) (?=[!-~])")


def pieces(text: str, size: int = 1 << 15) -> Iterator[str]:
    """Cuts a text into pieces of about `size` characters whose encodings, end to end, are exactly the text's."""
    start = 0
    while len(text) - start > size and (seam := _SEAM.search(text, start + size)):
        yield text[start : seam.start()]
        start = seam.start()
    yield text[start:]


def groups(texts: Iterable[str], size: int = 1 << 21, *, divides: bool = True) -> Iterator[list[tuple[int, bool, str]]]:
    """The pieces of texts as (number of the text, whether it is its last, piece), about `size` characters together.

    Unless `divides`, a text is one piece.
    """
    group: list[tuple[int, bool, str]] = []
    filled = 0
    for number, text in enumerate(texts):
        parts = list(pieces(text)) if divides else [text]
        for count, piece in enumerate(parts, 1):
            group.append((number, count == len(parts), piece))
            filled += len(piece)
            if filled >= size:
                yield group
                group, filled = [], 0
    if group:
        yield group
