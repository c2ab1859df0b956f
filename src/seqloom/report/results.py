"""The rows of a study, OUT/results.jsonl, as its page reads them.

    class Turn(StudyRow): agent: str; length: AtLeastOne; …             the columns that the page of the study needs
    rows = read(Path("runs/maze"), "maze", Turn)

A line's checksum shows that it was not damaged, not that its columns are those of the page: rows may be of another
version or another program. They are checked here alone, so that a page is drawn from numbers it can draw.
"""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from seqloom.core.files import read_bytes
from seqloom.runs.rows import parse_row

RESULTS = "results.jsonl"
LARGEST = 64 << 20
"""bytes that the rows may have"""


class StudyRow(BaseModel):
    """A row of a study and its origin; subclasses declare the columns that a page needs, others are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)
    cell: str = ""
    """the folder of its cell in OUT; "" in a row that is stored elsewhere"""
    date: str
    commit: str
    command: str
    machine: str


R = TypeVar("R", bound=StudyRow)
M = TypeVar("M", bound=BaseModel)


def read(out: Path, study: str, schema: type[R]) -> list[R]:
    """The rows of the study in `out`, without those of cells that failed; at least one.

    FileNotFoundError where the file is missing; ValueError, in one line, for a damaged line, for a column that is
    missing or does not fit the schema, and where there is no row.
    """
    path = out / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no results of a study there; give its --out")
    again = f"make it again with `seqloom study {study}`, or choose another folder"
    rows = []
    failed = 0
    for number, line in enumerate(read_bytes(path, LARGEST).splitlines(), 1):
        row = parse_row(line)
        if row is None:
            raise ValueError(f"{path}: line {number:,} is damaged: {again}")
        if row.get("failed") is not None:
            failed += 1
            continue
        rows.append(row_of(schema, row, f"{path}: line {number:,}", again))
    if not rows:
        reason = "all its trainings failed" if failed else "it is empty"
        raise ValueError(f"{path} has no row of `seqloom study {study}` to show: {reason}: {again}")
    return rows


def row_of(schema: type[M], values: object, where: str, advice: str) -> M:
    """The row of these values. ValueError, in one line, which names the first column that does not fit."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"]))
        raise ValueError(": ".join(filter(None, [where, column, first["msg"], advice]))) from None
