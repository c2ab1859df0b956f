"""How many pairs two layers recall, in the docs: the table of the probe `mqar`, which is trained to its end.

It is made from results/recall_trained.jsonl: rows of `seqloom study recall --probe mqar`. Of the learning rates of a
cell the best one counts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docs.making.results import RESULTS, read_rows
from docs.making.template import render
from docs.making.tracked import FILE

PROBE = "mqar"
SOLVED = 0.99
"""the share of right answers at which a training ends"""


def section(results: Path = RESULTS) -> str | None:
    """Markdown of the table and of what its rows are, the best model first; None without rows."""
    rows = [row for row in read_rows(results / FILE) if row["probe"] == PROBE and row["distance"] is None]
    if not rows:
        return None
    pairs = sorted({row["settings"]["pairs"] for row in rows})
    models: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        models.setdefault((row["mixer"], row["dim"]), []).append(row)
    best = {model: {n: _best(cells, n) for n in pairs} for model, cells in models.items()}
    ranked = sorted(best, key=lambda model: -sum(row["accuracy"] for row in best[model].values() if row))
    text = render(
        "recalled",
        head=("mixer", "dim", *(f"{n} pairs" for n in pairs), "state bytes"),
        lines=[(*map(str, model), *map(_cell, best[model].values()), _bytes(best[model])) for model in ranked],
        file=FILE,
        depths=" or ".join(str(depth) for depth in sorted({row["depth"] for row in rows})),
        solved=f"{SOLVED:.0%}",
        rates=", ".join(f"{rate:g}" for rate in sorted({row["lr"] for row in rows})),
        most=f"{max(row['batches'] for row in rows):,}",
        batch=rows[0]["batch"],
    )
    return text.rstrip()


def _best(rows: Sequence[dict[str, Any]], pairs: int) -> dict[str, Any] | None:
    """The row that solved them in the fewest batches, else that with the most right answers."""
    asked = [row for row in rows if row["settings"]["pairs"] == pairs and row["accuracy"] is not None]
    return max(asked, key=lambda row: (min(row["accuracy"], SOLVED), -row["batches"]), default=None)


def _cell(row: dict[str, Any] | None) -> str:
    return f"{row['accuracy']:.1%} ({row['batches']:,}, {row['lr']:g})" if row else ""


def _bytes(best: dict[int, dict[str, Any] | None]) -> str:
    """The state after the longest row that was asked about."""
    return f"{max(row['state_bytes'] for row in best.values() if row):,}"
