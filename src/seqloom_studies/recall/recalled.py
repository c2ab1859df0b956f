"""How many pairs two layers recall, in the docs: the table of the probe `mqar`, which is trained to its end.

It is made from results/recall_trained.jsonl: rows of `seqloom study recall --probe mqar`. Of the learning rates of a
cell the best one counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, final

from seqloom.report.stored import read_rows, render_markdown
from seqloom_studies.recall.tracked import FILE

PROBE, DEPTH = "mqar", 2
SOLVED = 0.99
"""the share of right answers at which a training ends"""


@final
@dataclass(frozen=True)
class Cell:
    """The models of one rate: means over their seeds."""

    share: float
    """of right answers"""
    batches: float
    lr: float
    state_bytes: int


def share(results: Path, mixer: str, dim: int, pairs: int) -> float | None:
    """The share of right answers of a model at its best rate; None without a row."""
    cell = _best([row for row in _rows(results) if (row["mixer"], row["dim"]) == (mixer, dim)], pairs)
    return None if cell is None else cell.share


def section(results: Path) -> str | None:
    """Markdown of the table and of what its rows are, the best model first; None without rows."""
    rows = _rows(results)
    if not rows:
        return None
    pairs = sorted({row["settings"]["pairs"] for row in rows})
    models: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        models.setdefault((row["mixer"], row["dim"]), []).append(row)
    best = {model: {n: _best(cells, n) for n in pairs} for model, cells in models.items()}
    ranked = sorted(best, key=lambda model: -sum(cell.share for cell in best[model].values() if cell))
    seeds = 1 + max(row["seed"] for row in rows)
    text = render_markdown(
        Path(__file__).with_name("recalled.md.jinja"),
        head=("mixer", "dim", *(f"{n} pairs" for n in pairs), "state bytes"),
        lines=[(*map(str, model), *map(_text, best[model].values()), _bytes(best[model])) for model in ranked],
        file=FILE,
        depth=DEPTH,
        solved=f"{SOLVED:.0%}",
        rates=", ".join(f"{rate:g}" for rate in sorted({row["lr"] for row in rows})),
        most=f"{max(row['batches'] for row in rows):,}",
        batch=rows[0]["batch"],
        seeds="one seed" if seeds == 1 else f"means over at most {seeds} seeds",
    )
    return text.rstrip()


def _rows(results: Path) -> list[dict[str, Any]]:
    """The rows of all questions of the probe."""
    rows = [row for row in read_rows(results / FILE) if row["probe"] == PROBE and row["depth"] == DEPTH]
    return [row for row in rows if row["distance"] is None]


def _best(rows: Sequence[dict[str, Any]], pairs: int) -> Cell | None:
    """The rate that solved them in the fewest batches, else that with the most right answers; NaN has none right."""
    rates: dict[float, list[dict[str, Any]]] = {}
    for row in rows:
        if row["settings"]["pairs"] == pairs:
            rates.setdefault(row["lr"], []).append(row)
    cells = [
        Cell(
            fmean(row["accuracy"] or 0.0 for row in runs),
            fmean(row["batches"] for row in runs),
            lr,
            max(row["state_bytes"] for row in runs),
        )
        for lr, runs in rates.items()
    ]
    return max(cells, key=lambda cell: (min(cell.share, SOLVED), -cell.batches), default=None)


def _text(cell: Cell | None) -> str:
    return f"{cell.share:.1%} ({cell.batches:,.0f}, {cell.lr:g})" if cell else ""


def _bytes(best: dict[int, Cell | None]) -> str:
    """The state after the longest row that was asked about."""
    return f"{max(cell.state_bytes for cell in best.values() if cell):,}"
