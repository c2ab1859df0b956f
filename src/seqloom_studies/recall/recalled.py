"""How many pairs two layers recall, in the docs: the table of the probe `mqar`, which is trained to its end.

It is made from results/recall_trained.jsonl: rows of `seqloom study recall --probe mqar`. Of the learning rates of a
cell the best one counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, final

from seqloom.core.table import format_size
from seqloom.report.stored import read_rows, render_markdown
from seqloom_studies.recall.tracked import FILE, model_name

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
    """after the longest row that was asked about"""
    seeds: int


def best_cells(results: Path) -> dict[tuple[str, int], dict[int, Cell]]:
    """Each model, (mixer, dim), at its best rate by the number of pairs; numbers that it was not asked are left out."""
    models: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in _rows(results):
        models.setdefault((row["mixer"], row["dim"]), []).append(row)
    return {
        model: {n: cell for n in _numbers_of_pairs(rows) if (cell := _best(rows, n)) is not None}
        for model, rows in models.items()
    }


def share(results: Path, mixer: str, dim: int, pairs: int) -> float | None:
    """The share of right answers of a model at its best rate; None without a row."""
    cell = best_cells(results).get((mixer, dim), {}).get(pairs)
    return None if cell is None else cell.share


def section(results: Path) -> str | None:
    """Markdown of the table and of what its rows are, the best model first; None without rows."""
    rows = _rows(results)
    if not rows:
        return None
    pairs = _numbers_of_pairs(rows)
    best = best_cells(results)
    ranked = sorted(best, key=lambda model: -sum(cell.share for cell in best[model].values()))
    seeds = 1 + max(row["seed"] for row in rows)
    text = render_markdown(
        Path(__file__).with_name("recalled.md.jinja"),
        head=("mixer", "dim", *(f"{n} pairs" for n in pairs), "memory"),
        lines=[_line(model, best[model], pairs) for model in ranked],
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


def _numbers_of_pairs(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted({row["settings"]["pairs"] for row in rows})


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
            len(runs),
        )
        for lr, runs in rates.items()
    ]
    return max(cells, key=lambda cell: (min(cell.share, SOLVED), -cell.batches), default=None)


def _line(model: tuple[str, int], best: dict[int, Cell], pairs: Sequence[int]) -> list[str]:
    """A line of the table: the model, its answers, and its state after the longest row that was asked about."""
    mixer, dim = model
    memory = format_size(max(cell.state_bytes for cell in best.values()))
    return [model_name(mixer), str(dim), *(_text(best.get(n)) for n in pairs), memory]


def _text(cell: Cell | None) -> str:
    return f"{cell.share:.1%} ({cell.batches:,.0f}, {cell.lr:g})" if cell else ""
