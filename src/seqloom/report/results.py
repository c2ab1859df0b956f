"""The rows of a study, OUT/results.jsonl, as its page reads them."""

from pathlib import Path
from typing import Any

from seqloom.core.files import read_bytes
from seqloom.runs.rows import checked

RESULTS = "results.jsonl"
LARGEST = 64 << 20
"""bytes that the rows may have"""


def read(out: Path, study: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of the study in `out`, without those of cells that failed; `columns` are some that no other study has.

    FileNotFoundError where it is missing; ValueError for a damaged line and for rows of another study.
    """
    path = out / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no results of a study there; give its --out")
    rows = []
    for number, line in enumerate(read_bytes(path, LARGEST).splitlines(), 1):
        row = checked(line)
        if row is None:
            raise ValueError(f"{path}: line {number:,} is damaged: make it again with the command of the study")
        if row.get("failed") is None:
            rows.append(row)
    if not rows or any(column not in row for row in rows for column in columns):
        raise ValueError(f"{path} has no rows of `seqloom study {study}`")
    return rows
