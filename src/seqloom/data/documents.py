"""Documents that can be iterated several times, so that a text larger than the memory need not be held in it.

`unwrap` joins the hard-wrapped lines of a document.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

# spaces and tabs before the line break are removed too; the next line must begin with a visible character
WRAP = re.compile(r"(?<=\S)[^\S\n]*\n(?=\S)")
"""matches the break of a line inside a paragraph"""


@final
@dataclass(frozen=True)
class Document:
    r"""One text: its name, for messages, and its content, with `\n` line ends and no byte-order mark."""

    name: str
    text: str


@final
class Documents:
    """The documents of a source, in a fixed order, none of them empty; each iteration is a new pass.

    source: its name, for messages; start: a function that begins a pass; rows: the most documents there can be; unit:
    what holds one document, such as "line"; skipped: counts of what was left out, by reason, complete after the first
    pass; characters: their number, if it is known. A pass that finds no text ends with a ValueError.
    """

    def __init__(
        self,
        source: str,
        start: Callable[[], Iterable[Document]],
        rows: int,
        *,
        unit: str = "document",
        skipped: Mapping[str, int] | None = None,
        characters: int | None = None,
    ) -> None:
        self.source = source
        self.rows = rows
        self.skipped = dict(skipped or {})
        self._start = start
        self._characters = characters
        self.unit = unit

    @classmethod
    def of(cls, documents: Iterable[Document], source: str = "the text", *, unit: str = "document") -> Self:
        """Documents that are in memory already."""
        if isinstance(documents, cls):
            return documents
        held = list(documents)
        return cls(source, lambda: held, len(held), unit=unit)

    def __iter__(self) -> Iterator[Document]:
        rows = blank = 0
        for document in self._start():
            rows += 1
            if document.text.strip():
                yield document
            else:
                blank += 1
        if blank == rows:
            raise ValueError(f"{self.source}: empty: no {self.unit} has any text")
        reason = f"{self.unit}s without text"
        if blank and reason not in self.skipped:
            print(f"{self.source}: {blank:,} {self.unit}s have no text and were left out", file=sys.stderr)
            self.skipped[reason] = blank

    @cached_property
    def characters(self) -> int:
        """About how many characters all texts have; where that is not known, they are counted in a pass."""
        return sum(len(document.text) for document in self) if self._characters is None else self._characters

    def map_texts(self, change: Callable[[str], str]) -> "Documents":
        """The same documents with `change` applied to every text."""
        return Documents(
            self.source,
            lambda: (Document(document.name, change(document.text)) for document in self),
            self.rows,
            characters=self._characters,
        )


def join_documents(parts: Sequence[Documents], source: str) -> Documents:
    """The documents of several sources, one after the other; of one it is its own."""
    if len(parts) == 1:
        return parts[0]
    characters = sum(part.characters for part in parts)
    rows = sum(part.rows for part in parts)
    return Documents(source, lambda: itertools.chain.from_iterable(parts), rows, characters=characters)


def format_counts(skipped: Mapping[str, int]) -> str:
    """Counts by reason, in words: "3 .csv files, 1 READMEs"."""
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))


def unwrap(text: str) -> str:
    r"""Joins the lines of each paragraph with one space.

    A single `\n` between two lines with text becomes a space, and spaces at the end of the first line are removed. The
    break stays where the next line is indented, as in most verse, lists and addresses. Empty lines, which separate
    paragraphs, stay as they are. Verse that is not indented is joined too; `wraps.join_wraps` joins prose alone.
    """
    return WRAP.sub(" ", text)
