"""The rows of a run as it is trained: appended one by one, readable at any time, cut where a checkpoint was saved.

A number that JSON does not know (NaN, infinities) is written as null, and its name is listed under `nonfinite`, so that
each line is valid JSON and a NaN is never taken for a 0. A process killed in the middle of a write leaves at most a
torn last line, which is dropped. How damage is noticed: `rows`.
"""

import math
import os
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from seqloom.core.files import open_regular, read_bytes
from seqloom.runs.durable import plain, replace
from seqloom.runs.rows import LARGEST, START, Mark, damage, describe_damage, encode, scan


@final
class Metrics:
    """The open rows of a run, for the one process that writes them.

    With a `mark`, the rows that it counts stay and all later ones are dropped; without one, all stay. A torn last line
    is dropped with a printed line. ValueError where a row that stays is damaged, or is not one that the mark counts.
    """

    def __init__(self, path: str | Path, say: Callable[[str], None] | None = None, *, mark: Mark | None = None) -> None:
        self._path = Path(path)
        self._say = say or (lambda line: print(line, file=sys.stderr, flush=True))
        data = self._repair_file(mark)
        self._rows = data.count(b"\n")
        self._digest = sha256(data)
        self._file = open_regular(self._path, "ab", follow=False)

    @property
    def mark(self) -> Mark:
        """The number of rows so far and their SHA-256 digest."""
        return Mark(self._rows, self._digest.hexdigest())

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row; it must hold the whole number `step`.

        ValueError for a row that JSON cannot hold; OSError when the disk is full, and then no part of the row is there.
        """
        line = encode(_clean(row))
        file = self._file.fileno()
        end = os.fstat(file).st_size
        try:
            written = os.write(file, line)
            while written < len(line):
                written += os.write(file, line[written:])
        except OSError:
            os.ftruncate(file, end)  # half a row, followed by others, would count as damage
            raise
        self._rows += 1
        self._digest.update(line)

    def sync(self) -> None:
        """Forces the rows to the disk; do it before a checkpoint, which must not count rows that could be lost."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Forces the rows to the disk and closes them."""
        self.sync()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repair_file(self, mark: Mark | None) -> bytes:
        """Drops from the file the lines that do not stay; returns those that do."""
        if not self._path.exists() and mark in (None, START):
            return b""
        try:
            content = scan(self._path, mark or START)
        except FileNotFoundError:
            raise ValueError(f"{self._path} is missing: restore it, or train in another --out") from None
        if mark is None and content.damaged:
            raise _damage_error(self._path, content.damaged)
        if mark is not None and not content.complete:
            raise ValueError(f"{self._path}: {describe_damage(content, mark)}: restore it, or train in another --out")
        if content.torn:
            self._say(f"{self._path}: the last line was torn (the process was killed in the middle of it): dropped")
        data = read_bytes(self._path, LARGEST)
        intact = data[: content.marked] if mark is not None else data[: data.rfind(b"\n") + 1]
        if len(intact) < len(data):
            replace(self._path, intact)
        return intact


def read(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a run. A torn last line is left out; a damaged row is a ValueError with the number of its line."""
    content = scan(Path(path))
    if content.damaged:
        raise _damage_error(path, content.damaged)
    return content.rows


def _damage_error(path: str | Path, lines: list[int]) -> ValueError:
    return ValueError(f"{path}: {damage(lines)}: restore it, or train in another --out")


def _clean(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as plain JSON. ValueError where that is not possible."""
    step = row.get("step")
    if not isinstance(step, int) or isinstance(step, bool):
        raise ValueError(f"a row of metrics needs a whole number 'step', not {step!r}")
    for name, meaning in (("nonfinite", "lists what is not finite"), ("crc32", "is the checksum")):
        if name in row:
            raise ValueError(f"a row of metrics cannot have a value named {name!r}: it {meaning}")
    names: list[str] = []
    clean: dict[str, Any] = _finite(row, "", names)
    plain(clean, "row")
    return {**clean, "nonfinite": names} if names else clean


def _finite(value: Any, field: str, names: list[str]) -> Any:
    """`value` with None for each number that is not finite; their dotted names are added to `names`."""
    if isinstance(value, float) and not math.isfinite(value):
        names.append(field)
        return None
    dotted = f"{field}." if field else ""
    if isinstance(value, Mapping):
        return {key: _finite(item, f"{dotted}{key}", names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item, f"{dotted}{index}", names) for index, item in enumerate(value)]
    return value
