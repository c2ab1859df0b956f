"""Writes docs/images/extrapolate.svg: loss against length beyond training, of the rows in results/extrapolate.jsonl."""

import json
from pathlib import Path
from typing import Any

from seqloom.report.charts.draw import svg
from seqloom.report.extrapolate import charts

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "results" / "extrapolate.jsonl"
OUT = ROOT / "docs" / "images" / "extrapolate.svg"


def rows() -> list[dict[str, Any]]:
    """The rows that are kept, the shortest lengths first."""
    found = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    return sorted(found, key=lambda row: int(row["length"]))


if __name__ == "__main__":
    OUT.write_text(svg(charts(rows())[0]), encoding="utf-8")
