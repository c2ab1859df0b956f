"""Documents in text files, which each pass reads again: of a file one, one between separators, or one a line of JSON.

a file        one document, which is held in memory alone
separator     `line`, or a text such as <|endoftext|>, between two documents; line breaks around it are no text
JSON lines    known by the ending of the file or by its first line: a document per line (module `json_lines`)
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from seqloom.data import json_lines
from seqloom.data.documents import Document
from seqloom.data.text_file import (
    Stamp,
    byte_parts,
    read_text_file,
    require_not_tokens,
    require_room,
    split_text,
    stamp_of,
    suffix_of,
    text_parts,
)

SUFFIXES = (".txt", ".md", ".text")
LINE = "line"
"""the separator for one document per line"""
_TABLES = (".csv", ".tsv")
_MARKUP = (".html", ".htm", ".xhtml", ".xml")
_TAGS = ("<!doctype html", "<html", "<?xml")
"""what the text of a file in HTML or XML begins with"""
_AS_IT_IS = "To train on the file as it is, call it .txt"
_BEGIN = 100
"""characters by which markup is known"""


@final
@dataclass(frozen=True)
class TextFile:
    """A text file and how its documents are cut."""

    path: Path
    name: str
    """what its documents are called"""
    column: str | None
    """the field of a line of JSON that holds the text; None for plain text"""
    separator: str | None
    """what stands between two documents of plain text; None where the file is one"""
    stamp: Stamp

    @classmethod
    def open(cls, path: Path, name: str, column: str, separator: str | None = None) -> Self:
        """The file, of which only the beginning is read.

        OSError or ValueError, in one line, where it is missing, no regular file, or of a kind that holds no plain text,
        and where its one document would not fit into the memory.
        """
        require_not_tokens(path)
        stamp = stamp_of(path)
        if holds_json_lines(path):
            return cls(path, name, column, None, stamp)
        if separator is None:
            require_room(path)
        _require_text(path)
        return cls(path, name, None, separator, stamp)

    @property
    def unit(self) -> str:
        """What holds one document."""
        return "line" if self.column is not None or self.separator == LINE else "document"

    def count(self) -> int:
        """The most documents there can be: lines or separators, counted in a pass."""
        if self.column is None and self.separator is None:
            return 1
        mark = b"\n" if self.unit == "line" else (self.separator or "").encode()
        count = 1
        tail = b""
        for part in byte_parts(self.path, self.stamp):
            window = tail + part
            count += window.count(mark)
            tail = window[max(len(window) - len(mark) + 1, 0) :]  # a mark may lie in two parts
        return count

    def documents(self) -> Iterator[Document]:
        """The documents, in order; one of a line of JSON may be without text.

        ValueError, in one line that names the file, where it is damaged, binary, not UTF-8 (with the byte offset),
        empty, or changed since it was opened, and for a wrong line of JSON (with its number).
        """
        if self.column is not None:
            lines = split_text(text_parts(self.path, self.stamp), "\n")
            yield from json_lines.documents_in(self.path, self.name, lines, self.column)
        elif self.separator is not None:
            yield from self._separate(self.separator)
        else:
            yield Document(self.name, read_text_file(self.path, self.stamp))

    def _separate(self, separator: str) -> Iterator[Document]:
        """The documents between separators; blank ones are none."""
        pieces = split_text(text_parts(self.path, self.stamp), "\n" if separator == LINE else separator)
        empty = True
        for number, piece in enumerate(pieces, 1):
            if piece.strip():
                empty = False
                yield Document(f"{self.name}:{number}", piece.strip("\n"))
        if empty:
            raise ValueError(f"{self.path}: empty")


def holds_json_lines(path: Path) -> bool:
    """Whether a file is read as JSON lines: by its ending, or by its first line with text."""
    return suffix_of(path) in json_lines.SUFFIXES or json_lines.begins_json_lines(text_parts(path))


def require_separator(separator: str | None) -> None:
    """ValueError for a separator that is blank."""
    if separator is not None and not separator.strip():
        raise ValueError(f"a separator of documents is {LINE} or a text that is not blank, not {separator!r}")


def _require_text(path: Path) -> None:
    """ValueError where a file holds JSON, a table or markup; a hint where it only looks like that."""
    suffix = suffix_of(path)
    if suffix == ".json":
        raise ValueError(f"{path}: JSON, and no JSON lines: {json_lines.ADVICE}")
    if suffix in _TABLES:
        raise ValueError(f"{path}: a table, not a text: write its texts as JSON lines or as Parquet. {_AS_IT_IS}")
    begin = _beginning(path).lstrip().lower()
    if suffix in _MARKUP or (suffix not in SUFFIXES and begin.startswith(_TAGS)):
        raise ValueError(f"{path}: HTML or XML: write the text of it without tags. {_AS_IT_IS}")
    if begin.startswith((*_TAGS, "[{")):
        print(f"{path}: it looks like {'JSON' if begin[0] == '[' else 'HTML or XML'}; read as it is", file=sys.stderr)


def _beginning(path: Path) -> str:
    """The first characters of a text."""
    text = ""
    for part in text_parts(path):
        text += part[:_BEGIN]
        if len(text) >= _BEGIN:
            break
    return text[:_BEGIN]
