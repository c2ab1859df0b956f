"""Study folders made by hand: rows as `seqloom study paper` writes them, with invented losses."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom_studies.paper.page_rows import Study, read

Losses = Mapping[str | tuple[str, float], Sequence[float | None]]
"""by series, or by series and what is varied: the loss of each seed, None where it is not finished"""


def rows(losses: Losses, held_out: Losses | None = None, **changes: Any) -> list[dict[str, Any]]:
    figure = {
        "row": "figure", "format": 1, "name": "fig8", "heading": "Figure 8: six", "says": "Six mixers.",
        "kind": "curves", "over": "", "scale": "small", "differs": "depth 2 (paper: 18)", "batches": 3000, "batch": 64,
        "stretch": 100, "seeds": len(next(iter(losses.values()))), "notes": [], "text": "books", "identity": "abc",
        "held_out_tokens": 9, "unigram": 6.0, "floor": None,
        "origin": {"date": "D", "commit": "abc", "command": "seqloom paper fig8", "machine": "2-core M"},
    } | changes  # fmt: skip
    cells = []
    for line, (key, known) in enumerate(losses.items()):
        series, x = key if isinstance(key, tuple) else (key, None)
        for seed, loss in enumerate(known):
            held = (held_out or losses)[key][seed]
            cells.append({
                "row": "cell", "cell": f"{series}.seed-{seed}", "line": line, "seed": seed, "series": series,
                "of": series, "x": x, "family": "", "batches": 3000, "asked": 3000, "finished": loss is not None,
                "failed": None, "training": 9.9 if loss is None else loss, "held_out": held, "seconds": 0.1,
                "parameters": 7, "operations": 8,
            })  # fmt: skip
    return [figure, *cells]


def write(folder: Path, made: Sequence[Mapping[str, Any]], name: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name or made[0]['name']}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return path


def plate(folder: Path, losses: Losses, **changes: Any) -> Study:
    return read(write(folder, rows(losses, **changes)))
