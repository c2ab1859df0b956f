"""The rows of a study on disk.

    OUT/NAME/rows.json    the rows of a cell: {format, cell, rows, origin, sha256}, written when the cell is done, and
                          `code` where it depends on codes of mixers
    OUT/results.jsonl     the rows of all cells, one per line with a crc32: {cell, …row, …origin} or {cell, failed}

`cell` in rows.json is `Cell.key`, the digest of the cell's settings and codes; a cell whose key has changed since is
run again. Rows of another format, and rows that were altered, are an error.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

from pydantic import ValidationError

from seqloom.core.files import read_bytes, read_json
from seqloom.runs.code import Codes, is_codes
from seqloom.runs.durable import replace
from seqloom.runs.layout import make_folder, seal_settings
from seqloom.runs.lock import lock
from seqloom.runs.rows import encode, parse_row
from seqloom.studies.study import Cell, Row

FORMAT = 1
ROWS, RESULTS = "rows.json", "results.jsonl"
LARGEST = 64 << 20
"""the most bytes of the rows of one cell"""
ROWLESS = "has no rows of a cell: move it away, and the cell is run again"
R = TypeVar("R", bound=Row)


def save(folder: Path, cell: Cell, rows: Sequence[Row], origin: Mapping[str, str]) -> None:
    """Writes the rows of a cell, at least one, completely or not at all."""
    assert rows
    content = {
        "format": FORMAT,
        "cell": cell.key,
        "rows": [row.model_dump(mode="json") for row in rows],
        "origin": dict(origin),
        **({"code": cell.code} if cell.code else {}),
    }
    make_folder(folder)
    with lock(folder):
        replace(folder / ROWS, seal_settings(content))


def load(folder: Path, cell: Cell) -> list[Row] | None:
    """The rows of a cell; None where it is not done with these settings.

    ValueError for rows of another format, and where the file was altered.
    """
    path = folder / ROWS
    if not path.is_file():
        return None
    content = document(path)
    if content["cell"] != cell.key:
        return None
    if not content["rows"]:
        raise ValueError(f"{path} {ROWLESS}")
    try:
        return [cell.schema.model_validate(row) for row in content["rows"]]
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ValueError(
            f"{path} has rows of an older format ({field}: {first['msg']}): choose another --out"
        ) from None


def saved_code(folder: Path) -> Codes | None:
    """The codes that the rows in a folder are of; None without rows. Raises ValueError as `load` does."""
    path = folder / ROWS
    if not path.is_file():
        return None
    written = document(path).get("code")
    return written if is_codes(written) else {}


def document(path: Path) -> dict[str, Any]:
    """The content of a rows.json without its sha256. Raises ValueError as `load` does."""
    content = read_json(path, LARGEST, follow=False)
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        older = isinstance(version, int) and version < FORMAT
        problem = (
            f"of format {version}, and this seqloom reads {FORMAT}" if version is not None else "no rows of a study"
        )
        raise ValueError(f"{path} is {problem}: {'' if older else 'update seqloom, or '}choose another --out")
    digest = content.pop("sha256", None)
    if digest is None or read_bytes(path, LARGEST, follow=False) != seal_settings(content):
        raise ValueError(
            f"{path} is altered: its sha256 is not that of its rows: put it back, or move it to run the cell again"
        )
    rows, origin = content.get("rows"), content.get("origin")
    named = isinstance(content.get("cell"), str) and isinstance(origin, dict)
    if not named or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} {ROWLESS}")
    return content


@final
class Results:
    """The rows of a study so far, by cell, and the reasons why cells failed."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.rows: dict[str, list[Row]] = {}
        self.failed: dict[str, str] = {}

    def add(self, cell: Cell) -> bool:
        """Reads the rows of a cell from its folder; returns False where the cell is not done."""
        rows = load(self.out / cell.name, cell)
        if rows is None:
            return False
        self.rows[cell.name] = rows
        self.failed.pop(cell.name, None)
        return True

    def of(self, schema: type[R]) -> list[R]:
        """All rows of a schema, in the order of the cells."""
        return [row for rows in self.rows.values() for row in rows if isinstance(row, schema)]

    def write(self) -> Path:
        """Writes OUT/results.jsonl with the rows of all cells in OUT, also those of earlier commands.

        Returns its path.
        """
        path = self.out / RESULTS
        lines = []
        for file in sorted(self.out.rglob(ROWS)):
            content, name = document(file), file.parent.relative_to(self.out).as_posix()
            lines += [encode({"cell": name, **row, **content["origin"]}) for row in content["rows"]]
        lines += [encode({"cell": name, "failed": why}) for name, why in self.failed.items()]
        make_folder(self.out)
        replace(path, b"".join(lines))
        return path


def read(folder: Path) -> list[dict[str, Any]]:
    """The lines of FOLDER/results.jsonl. FileNotFoundError where there is none; ValueError for a damaged line."""
    path = folder / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no results of a study there; give its --out")
    lines = [parse_row(line) for line in read_bytes(path, LARGEST).splitlines()]
    for number, row in enumerate(lines, 1):
        if row is None:
            raise ValueError(f"{path}: line {number:,} is damaged: make it again with the command of the study")
    return [row for row in lines if row is not None]
