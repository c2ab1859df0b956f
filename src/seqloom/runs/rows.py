"""Rows on disk: one JSON object a line, each with a checksum, all of them under a running digest.

    {"step": 7, "loss": 4.25, "crc32": 1510334235}       crc32 of the line's text without that field

A checkpoint holds the `Mark` of the rows that were written before it, so that rows which are deleted, exchanged or
changed are noticed. A last line without its end was torn by a kill, and is no damage.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, final
from zlib import crc32

from seqloom.core.files import open_regular, parse_json

LARGEST = 256 << 20
"""bytes that a file of rows may have: those of some two million steps"""
LONGEST = 32 << 20
"""bytes that a row may have"""
_MOST_DAMAGED = 10_000
_END = re.compile(rb', "crc32": (0|[1-9]\d{0,9})\}\Z')


@final
@dataclass(frozen=True)
class Mark:
    """The number of rows up to some point, and the sha256 of their lines."""

    rows: int
    sha256: str

    def row(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def of(cls, value: object) -> Self:
        """The mark that `row` wrote. ValueError for anything else."""
        if not isinstance(value, Mapping) or set(value) != {"rows", "sha256"}:
            raise ValueError("it has no number and digest of rows")
        rows, digest = value["rows"], value["sha256"]
        if type(rows) is not int or rows < 0 or not isinstance(digest, str):
            raise ValueError("its number and digest of rows are none")
        return cls(rows, digest)


START = Mark(0, sha256().hexdigest())
"""the mark before the first row"""


@final
@dataclass
class Content:
    """The contents of a file of rows; lines count from 1."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """the good ones, without their checksum"""
    damaged: list[int] = field(default_factory=list)
    """the numbers of the lines whose checksum is wrong"""
    lines: int = 0
    """whole lines, damaged ones too"""
    marked: int = 0
    """bytes of the lines that the mark counts"""
    torn: bool = False
    """whether an incomplete last line follows"""
    complete: bool = True
    """whether the first lines are those that the mark counts"""


def scan(path: Path, mark: Mark = START) -> Content:
    """Reads and checks a file of rows. FileNotFoundError without one; ValueError, in one line, where it is not one."""
    content = Content()
    digest = sha256()
    for line in _lines(path):
        if not line.endswith(b"\n"):
            content.torn = True
            break
        content.lines += 1
        if content.lines <= mark.rows:
            digest.update(line)
            content.marked += len(line)
        row = decode(line[:-1])
        if row is not None:
            content.rows.append(row)
        else:
            content.damaged.append(content.lines)
        if len(content.damaged) > _MOST_DAMAGED:
            raise ValueError(f"{path} holds no rows of a run: more than {_MOST_DAMAGED:,} of its lines are damaged")
    content.complete = content.lines >= mark.rows and digest.hexdigest() == mark.sha256
    return content


def encode(row: Mapping[str, Any]) -> bytes:
    """The line of a row of plain JSON, which must not be empty."""
    text = json.dumps(row, allow_nan=False)
    return f'{text[:-1]}, "crc32": {crc32(text.encode())}}}\n'.encode()


def decode(line: bytes) -> dict[str, Any] | None:
    """The row of a line without its line end; None where it is damaged, or has no whole `step` of at least 0."""
    row = parse_row(line)
    if row is None or type(row.get("step")) is not int or not 0 <= row["step"] < 2**53:
        return None
    return row


def parse_row(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line without its line end and its checksum; None where it is damaged."""
    end = _END.search(line[-24:])
    if end is None:
        return None
    text = line[: len(line) - len(end[0])] + b"}"
    if crc32(text) != int(end[1]):
        return None
    try:
        row = parse_json(text)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def describe_damage(content: Content, mark: Mark) -> str:
    """The damage to the rows that a mark counts, in a few words."""
    damaged = [number for number in content.damaged if number <= mark.rows]
    wrong = [damage(damaged)] if damaged else []
    if content.lines < mark.rows:
        wrong.append(f"{mark.rows - content.lines:,} missing")
    if not wrong:
        wrong.append("some were deleted, added or exchanged")
    return f"of the {mark.rows:,} rows that the run's checkpoint counts, {' and '.join(wrong)}"


def damage(lines: list[int]) -> str:
    """The numbers of damaged lines, in words: the first ten of them."""
    named = ", ".join(str(number) for number in lines[:10]) + (", …" if len(lines) > 10 else "")
    return f"{len(lines):,} damaged (line {named})" if len(lines) == 1 else f"{len(lines):,} damaged (lines {named})"


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file with their line ends; ValueError for a file or a line that is too large."""
    with open_regular(path, follow=False) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            raise ValueError(f"{path} is too large: {size:,} bytes; the rows of a run have at most {LARGEST:,}")
        while line := file.readline(LONGEST):
            if len(line) == LONGEST:
                raise ValueError(f"{path} holds no rows of a run: a line has more than {LONGEST:,} bytes")
            yield line
