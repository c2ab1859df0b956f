"""The rows of `seqloom study paper` that are kept in results/paper.

results/paper/NAME.jsonl            the rows of a study
results/paper/NAME-BATCHES.jsonl    the same figure after another number of batches
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from docs.making.results import RESULTS
from seqloom.experiments.paper.studies import STUDIES
from seqloom.report.study.rows import Study, read

FOLDER = RESULTS / "paper"
TEXTS = "table2"
MOST = 400
"""batches of Figure 9 that are kept of a cell"""
ELSEWHERE = re.compile(r"(?:^|[\s='\"(\[])(?:~?/\w|\.\.?/|[A-Za-z]:\\)")
"""a path of one machine"""
WRITTEN = ("text", "prompt")
"""what a model writes and reads, of Table 2"""
Kept: TypeAlias = dict[str, list[tuple[str, Study]]]
"""by study: files with their rows"""


def keep(out: Path, folder: Path = FOLDER) -> list[Path]:
    """Keeps the rows of each study in OUT; the files. ValueError where there is none, or a row names a path."""
    paths = [path for path in (out / f"{study}.jsonl" for study in (*STUDIES, TEXTS)) if path.is_file()]
    if not paths:
        raise ValueError(f"{out} has no rows of a study; `seqloom study paper fig8 --out {out.name}` makes some")
    folder.mkdir(parents=True, exist_ok=True)
    return [_keep(path, folder) for path in paths]


def _keep(path: Path, folder: Path) -> Path:
    rows = [_thinned(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    for text in (text for row in rows for text in _texts({k: v for k, v in row.items() if k not in WRITTEN})):
        if ELSEWHERE.search(text):
            raise ValueError(f"{path.name} names a path of a machine, {text!r}: take it out of the rows first")
    target = folder / path.name
    if path.stem != TEXTS and target.exists() and read(target).figure["batches"] != rows[0]["batches"]:
        target = folder / f"{path.stem}-{rows[0]['batches']}.jsonl"
    target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return target


def _thinned(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is; of one with all batches, every n-th, and n next to them."""
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


def kept(folder: Path = FOLDER) -> Kept:
    """The studies that there are, each with the names of its files; the first decides about a claim.

    Those of the paper's own settings come first, then those of more seeds, then those after more batches.
    """
    by_name: Kept = {}
    for study in STUDIES:
        paths = sorted((*folder.glob(f"{study}.jsonl"), *folder.glob(f"{study}-[0-9]*.jsonl")), key=lambda p: p.stem)
        studies = [(path.name, read(path)) for path in paths]
        if studies:
            by_name[study] = sorted(studies, key=lambda named: _order(named[1].figure))
    return by_name


def _order(figure: dict[str, Any]) -> tuple[bool, int, int]:
    return figure["differs"] != "", -figure["seeds"], -figure["batches"]


def texts(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """The rows of Table 2; [] where there are none."""
    path = folder / f"{TEXTS}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
