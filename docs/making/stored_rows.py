"""Stores the rows of `seqloom study paper` in results/paper.

results/paper/NAME.jsonl            the rows of a study
results/paper/NAME-BATCHES.jsonl    the same figure after another number of batches
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.making.results import RESULTS, read_rows, write_rows
from seqloom.experiments.paper.replication import TEXTS
from seqloom.experiments.paper.studies import STUDIES
from seqloom.report.study.rows import read

FOLDER = RESULTS / "paper"
MOST = 400
"""the most batches of Figure 9 that are stored per cell"""
LOCAL_PATH = re.compile(r"(?:^|[\s='\"(\[])(?:~?/\w|\.\.?/|[A-Za-z]:\\)")
"""a path of one machine"""
WRITTEN = ("text", "prompt")
"""columns of Table 2 with generated texts and prompts, which may contain anything"""


def store(out: Path, folder: Path = FOLDER) -> list[Path]:
    """Stores the rows of each study in OUT; returns the files. ValueError for no study, or a row that names a path."""
    names = (*(f"{study}.jsonl" for study in STUDIES), TEXTS)
    paths = [out / name for name in names if (out / name).is_file()]
    if not paths:
        raise ValueError(f"{out} has no rows of a study; `seqloom study paper fig8 --out {out.name}` makes some")
    folder.mkdir(parents=True, exist_ok=True)
    return [_store(path, folder) for path in paths]


def _store(path: Path, folder: Path) -> Path:
    rows = [_thinned(row) for row in read_rows(path)]
    for text in (text for row in rows for text in _texts({k: v for k, v in row.items() if k not in WRITTEN})):
        if LOCAL_PATH.search(text):
            raise ValueError(f"{path.name} names a path of a machine, {text!r}: take it out of the rows first")
    target = folder / path.name
    if path.name != TEXTS and target.exists() and read(target).figure["batches"] != rows[0]["batches"]:
        target = folder / f"{path.stem}-{rows[0]['batches']}.jsonl"
    write_rows(target, rows)
    return target


def _thinned(row: dict[str, Any]) -> dict[str, Any]:
    """A row without changes; of a row with all batches, every n-th batch, and n in the column `kept_each`."""
    if row.get("row") != "batches":
        return row
    every = -(-len(row["steps"]) // MOST)
    return row | {"steps": row["steps"][::every], "losses": row["losses"][::every], "kept_each": every}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
