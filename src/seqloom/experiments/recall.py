"""Probes: which skills a mixer learns, and up to which difficulty.

    recall([contender("attention"), contender("me")], ["mqar"], [1, 2, 3], Path("runs/recall"))

A grid of small models, each trained on the questions of one probe alone (`data/probes`), then asked about rows that it
never saw. All read the same rows in the same order; what differs is the mixer, and what the grid says. Each cell is a
folder beneath OUT that is kept once it is finished; OUT/rows.jsonl holds what all of them found.
"""

import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from seqloom.core.device import chosen
from seqloom.core.progress import progress
from seqloom.core.seeds import require_count
from seqloom.data.probes import PROBES, probe
from seqloom.evaluation.answers import Row
from seqloom.experiments.contenders import Contender
from seqloom.experiments.recall_cell import KEPT, Cell, answered
from seqloom.runs.durable import replace
from seqloom.runs.layout import read_json
from seqloom.training.memory import keep_freed_memory, require_room
from seqloom.training.settings import resolve
from seqloom.training.train import Say, Show

ROWS = "rows.jsonl"
BASE = ["data.source=stories", "model.dropout=0", "training.save_every=1000"]


def recall(
    mixers: Sequence[Contender],
    probes: Sequence[str],
    difficulties: Sequence[int],
    out: Path,
    *,
    dims: Sequence[int] = (64,),
    depth: int = 2,
    batches: int = 3000,
    batch: int = 64,
    lrs: Sequence[float] = (1e-3,),
    seeds: int = 1,
    changes: Sequence[str] = (),
    command: str = "",
    left_out: dict[tuple[str, str], str] | None = None,
    say: Say | None = None,
    show: Show = progress,
) -> list[Row]:
    """Trains every cell that is not finished; returns the rows of all cells asked for (see `recall_cell`).

    `changes` are settings of all models, as `model.position=none`. ValueError, in one line and before anything is
    trained, for what does not fit; where `left_out` is given, a mixer that does not fit a probe is put there instead,
    with the reason. `Stopped` when a signal ends it.
    """
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    sizes = [f"model.depth={depth}", f"training.batches={batches}", f"training.batch={batch}"]
    cells = _grid(mixers, probes, difficulties, dims, lrs, seeds, [*BASE, *sizes], changes, left_out)
    keep_freed_memory()
    rows: list[Row] = []
    for number, cell in enumerate(cells, 1):
        found = answered(cell, out, command, say, show)
        rows += found
        _write(out)
        best = found[0]["accuracy"]
        words = "did not converge" if best is None else f"right {best:.1%} after {found[0]['batches']:,} batches"
        say(f"{number} of {len(cells)}: {cell.folder}: {words}")
    return rows


def _grid(
    mixers: Sequence[Contender],
    probes: Sequence[str],
    difficulties: Sequence[int],
    dims: Sequence[int],
    lrs: Sequence[float],
    seeds: int,
    base: Sequence[str],
    changes: Sequence[str],
    left_out: dict[tuple[str, str], str] | None,
) -> list[Cell]:
    """Every cell, the easiest first, and all mixers on one before the next."""
    grid: dict[str, Sequence[object]] = {
        "mixers": [each.name for each in mixers],
        **{"probes": probes, "difficulties": difficulties, "dims": dims, "learning rates": lrs},
    }
    for name, given in grid.items():
        if not given or len(set(given)) < len(given):
            raise ValueError(f"recall needs {name} that differ, not {', '.join(map(str, given)) or 'none'}")
    require_count(seeds)
    cells = []
    for title, difficulty, seed, dim, lr, mixer in product(probes, difficulties, range(seeds), dims, lrs, mixers):
        task = probe(title, difficulty)
        objective = json.dumps({"kind": "probe", "probe": title, "difficulty": difficulty})  # JSON is YAML
        own = [f"model.dim={dim}", f"model.ffn={2 * dim}", f"training.lr={lr}", f"training.objective={objective}"]
        try:
            config = resolve("demo", [*base, *own, f"training.seed={seed}", *changes, *mixer.changes])
            require_room(config.model, chosen(config.training.device), config.training)
        except ValueError as error:
            if left_out is None:
                raise
            left_out[mixer.name, title] = str(error)
            continue
        cells.append(Cell(mixer.name, title, difficulty, task, config))
    return cells


def _write(out: Path) -> None:
    """OUT/rows.jsonl: the rows of every finished cell in OUT, those of earlier commands too."""
    rows = [row for name in PROBES for path in sorted(out.glob(f"{name}-*/*/*/{KEPT}")) for row in read_json(path)]
    replace(out / ROWS, "".join(json.dumps(row) + "\n" for row in rows).encode())
