"""Stores the rows of `seqloom study paper` in results/paper.

results/paper/NAME.jsonl            the rows of a study
results/paper/NAME-BATCHES.jsonl    the same figure after another number of batches
"""

import json
import re
from pathlib import Path
from typing import Any

from seqloom.report.stored import read_rows, write_rows
from seqloom_studies.paper.page_rows import read
from seqloom_studies.paper.replication import TEXTS
from seqloom_studies.paper.studies import STUDIES

MOST = 400
"""the most batches of Figure 9 that are stored per cell"""
LOCAL_PATH = re.compile(r"(?:^|[\s='\"(\[])((?:~?/\w|\.\.?/|[A-Za-z]:\\)[^\s'\"]*)")
"""a path of one machine, at the start of a word"""
WRITTEN = ("text", "prompt")
"""columns of Table 2 with generated texts and prompts, which may contain anything"""


def store(out: Path, folder: Path) -> list[Path]:
    """Stores the rows of each study in OUT; returns the files. ValueError for no study, or a row that names a path."""
    names = (*(f"{study}.jsonl" for study in STUDIES), TEXTS)
    paths = [out / name for name in names if (out / name).is_file()]
    if not paths:
        raise ValueError(f"{out} has no rows of a study; `seqloom study paper fig8 --out {out.name}` makes some")
    folder.mkdir(parents=True, exist_ok=True)
    return [_store(path, folder) for path in paths]


def _store(path: Path, folder: Path) -> Path:
    """Stores the rows of a file. ValueError where one names a path."""
    rows = [_thin_row(row) for row in read_rows(path)]
    for row in rows:
        text = json.dumps({name: value for name, value in row.items() if name not in WRITTEN}, ensure_ascii=False)
        if match := LOCAL_PATH.search(text):
            raise ValueError(f"{path.name} names a path of a machine, {match[1]}: take it out of the rows first")
    target = folder / path.name
    if path.name != TEXTS and target.exists() and read(target).figure.batches != rows[0]["batches"]:
        target = folder / f"{path.stem}-{rows[0]['batches']}.jsonl"
    write_rows(target, rows)
    return target


def _thin_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row without changes; of a row with all batches, every n-th batch, and n in the column `kept_each`."""
    if row.get("row") != "batches":
        return row
    spacing = -(-len(row["steps"]) // MOST)
    return row | {"steps": row["steps"][::spacing], "losses": row["losses"][::spacing], "kept_each": spacing}
