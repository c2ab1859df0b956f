"""The rows of the queue: one file, a line for each cell that is done and for each item that has ended.

    {item, study, cell, key, code, card, rows: […], source, date, commit, command, machine}
    {item, ended: true, minutes, code, card, source, …}

A line is on the disk before the next cell begins. A cell whose line is of the same settings, code and card is not run
again: its rows are put back where its study looks for them, also on another machine.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from seqloom.analysis.origin import origin
from seqloom.core.files import open_regular, read_text
from seqloom.runs.durable import replace
from seqloom.studies.results import Results, save
from seqloom.studies.study import Cell, Row
from seqloom_studies.gpu.card import Card, source_digest

NAME = "rows.jsonl"
ORIGIN = ("date", "commit", "tag", "command", "machine")
LARGEST = 16 << 20
"""the most bytes of a file of rows, as much as comes back from a machine"""


@final
class Ledger:
    """The lines of OUT/rows.jsonl, to which it appends, and of files from before, which stay as they are."""

    def __init__(self, out: Path, earlier: Sequence[Path], card: Card | None, command: str) -> None:
        """Reads the files; where `card` is None, lines of every card count. ValueError for a file of other lines."""
        self.path = out / NAME
        self.card = card
        self._command = command
        self._lines = [line for path in (*earlier, self.path) for line in _read(path)]
        if card is not None:
            _end_line(self.path)

    def has_ended(self, item: str, code: str) -> bool:
        """Whether an item has ended with this code on this card."""
        return any(line.get("ended") and line["item"] == item for line in self._of(code))

    def cells(self, item: str, code: str) -> int:
        """The number of cells of an item that are done with this code on this card."""
        return sum("cell" in line and line["item"] == item for line in self._of(code))

    def restore(self, study: str, code: str, cell: Cell, results: Results) -> bool:
        """Puts the rows of a cell back into the folder of its study; False where there is no line of it."""
        for line in self._of(code):
            if line.get("study") == study and line.get("cell") == cell.name and line["key"] == cell.key:
                rows = [cell.schema.model_validate(row) for row in line["rows"]]
                made = {name: line[name] for name in ORIGIN if name in line}
                save(results.out / cell.name, cell, rows, made)
                return results.add(cell)
        return False

    def add(self, item: str, study: str, code: str, cell: Cell, rows: Sequence[Row]) -> None:
        """Appends the line of a cell."""
        values = [row.model_dump(mode="json") for row in rows]
        self._append({"item": item, "study": study, "cell": cell.name, "key": cell.key, "code": code, "rows": values})

    def end(self, item: str, code: str, minutes: float) -> None:
        """Appends the line of an item that has ended."""
        self._append({"item": item, "ended": True, "minutes": round(minutes, 2), "code": code})

    def _append(self, values: Mapping[str, Any]) -> None:
        assert self.card is not None, "a plan appends nothing"
        line = {**values, "card": self.card.settings, "source": source_digest(), **origin(self._command)}
        with open_regular(self.path, "ab", follow=False) as file:
            file.write((json.dumps(line, allow_nan=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self._lines.append(line)

    def _of(self, code: str) -> list[dict[str, Any]]:
        """The lines of this code and this card."""
        lines = [line for line in self._lines if line["code"] == code]
        return lines if self.card is None else [line for line in lines if line["card"] == self.card.settings]


def _read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file; none where there is no file. A last line that was cut off counts as not written."""
    if not path.is_file():
        return []
    lines = read_text(path, LARGEST).splitlines()
    made = []
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            if not {"item", "code", "card", "commit"} <= line.keys():
                raise ValueError
        except (ValueError, AttributeError):
            if number == len(lines):
                break
            raise ValueError(f"{path}: line {number:,} is no row of the queue: put back the file") from None
        made.append(line)
    return made


def _end_line(path: Path) -> None:
    """Makes the folder of the file, and takes a last line away that was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and not (content := path.read_bytes()).endswith(b"\n"):
        replace(path, content[: content.rfind(b"\n") + 1])
