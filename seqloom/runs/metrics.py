"""The rows of a run: one JSON object a line, appended as training goes, readable at any time.

A number that JSON does not know (NaN, infinities) is written as null, and its name is listed under `nonfinite`, so that
each line is valid JSON and a NaN is never taken for a 0. A process killed in the middle of a write leaves at most a
torn last line, which is dropped.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from seqloom.runs.durable import plain, replace


@final
class Metrics:
    """The open rows of a run, for the one process that writes them. Opening drops a torn last line, and says so."""

    def __init__(self, path: str | Path, say: Callable[[str], None] | None = None) -> None:
        self._path = Path(path)
        self._say = say or (lambda line: print(line, file=sys.stderr, flush=True))
        self._keep(lambda row: True)
        self._file = self._opened()

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row; it must hold the whole number `step`.

        ValueError for a row that JSON cannot hold; OSError when the disk is full, and then no part of the row is there.
        """
        step = row.get("step")
        if not isinstance(step, int) or isinstance(step, bool):
            raise ValueError(f"a row of metrics needs a whole number 'step', not {step!r}")
        line = (_text(row) + "\n").encode()
        end = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError:
            os.ftruncate(self._file, end)  # half a row in the middle would spoil the file
            raise

    def truncate_after(self, step: int) -> int:
        """Drops the rows of steps after `step`, at one instant; returns how many. For resuming at that step."""
        dropped = self._keep(lambda row: row.get("step", step) <= step)
        os.close(self._file)  # the file of this name is another one now
        self._file = self._opened()
        return dropped

    def sync(self) -> None:
        """Forces the rows to the disk; do it before a checkpoint, which then never knows more than they do."""
        os.fsync(self._file)

    def close(self) -> None:
        """Forces the rows to the disk and closes them."""
        self.sync()
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _keep(self, wanted: Callable[[dict[str, Any]], bool]) -> int:
        lines, torn = _lines(self._path)
        if torn:
            self._say(f"{self._path}: the last line was torn (the process was killed in the middle of it): dropped")
        kept = [line for line, row in lines if wanted(row)]
        if torn or len(kept) < len(lines):
            replace(self._path, b"".join(line + b"\n" for line in kept))
        return len(lines) - len(kept)

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)


def read(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a run. A torn last line is left out; any other broken line is a ValueError with its number."""
    return [row for _, row in _lines(Path(path), must_exist=True)[0]]


def _lines(path: Path, must_exist: bool = False) -> tuple[list[tuple[bytes, dict[str, Any]]], bool]:
    """The lines with their rows, and whether the last one was torn: it lacks its end, or is no JSON object."""
    if not must_exist and not path.exists():
        return [], False
    *texts, rest = path.read_bytes().split(b"\n")
    rows = [_row(text) for text in texts]
    broken = [number for number, row in enumerate(rows, 1) if row is None]
    if broken and (broken[0] < len(rows) or rest):
        raise ValueError(f"{path}, line {broken[0]}: not a row (a JSON object): mend or remove the line")
    return [(text, row) for text, row in zip(texts, rows, strict=True) if row is not None], bool(rest or broken)


def _row(text: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(text)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _text(row: Mapping[str, Any]) -> str:
    if "nonfinite" in row:
        raise ValueError("a row of metrics cannot have a value named 'nonfinite': it lists what is not finite")
    names: list[str] = []
    clean = _finite(row, "", names)
    plain(clean, "row")
    return json.dumps({**clean, "nonfinite": names} if names else clean, allow_nan=False)


def _finite(value: Any, place: str, names: list[str]) -> Any:
    """`value` with None for each number that is not finite; their dotted places are added to `names`."""
    if isinstance(value, float) and not math.isfinite(value):
        names.append(place)
        return None
    dotted = f"{place}." if place else ""
    if isinstance(value, Mapping):
        return {key: _finite(item, f"{dotted}{key}", names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item, f"{dotted}{index}", names) for index, item in enumerate(value)]
    return value
