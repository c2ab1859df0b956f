"""Trainings that run, as the page shows them: the last losses of each, and how old its last row is."""

import time
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from seqloom.runs.layout import Run
from seqloom.runs.rows import scan

POINTS = 300
"""the most points of a curve"""


def live_rows(folders: dict[str, Path]) -> list[dict[str, Any]]:
    """The curves of all runs with rows, the newest first; a run that is damaged has an error in one line."""
    now = time.time()
    runs: list[dict[str, Any]] = []
    for name, folder in folders.items():
        path = Run(folder).metrics
        try:
            found = path.stat()
            curves = _read_curves(path, found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            runs.append({"name": name, "age": None, "error": " ".join(str(error).split())[:300]})
            continue
        runs.append({"name": name, "age": max(0.0, now - found.st_mtime), **curves})
    return sorted(runs, key=lambda run: (run["age"] is None, run["age"]))


@lru_cache(maxsize=256)
def _read_curves(path: Path, changed: int, size: int) -> dict[str, Any]:
    """The curves of a file, which is read again only where it was `changed` or has another size."""
    return _curves(scan(path).rows)


def _curves(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Losses by step, thinned to `POINTS`, the newest point included; and how fast the last rows came."""
    losses = [(row["step"], row["loss"]) for row in rows if isinstance(row.get("loss"), float)]
    held_out = [(row["step"], row["held_out"]) for row in rows if isinstance(row.get("held_out"), float)]
    recent = [row["seconds"] for row in rows[-20:] if isinstance(row.get("seconds"), float)]
    first = rows[-len(recent) - 1]["step"] if len(rows) > len(recent) else 0
    steps = rows[-1]["step"] - first if rows else 0
    total = sum(recent)
    tokens = [row["tokens_per_second"] for row in rows[-20:] if isinstance(row.get("tokens_per_second"), float)]
    return {
        "step": rows[-1]["step"] if rows else 0,
        "loss": _thin(losses),
        "held_out": _thin(held_out),
        "steps_a_second": steps / total if total > 0 else None,
        "tokens_a_second": median(tokens) if tokens else None,
    }


def _thin(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most `POINTS` of the points, the last among them."""
    every = -(-len(points) // POINTS) or 1
    return points[::-1][::every][::-1]
