"""A study's rows in OUT/NAME.jsonl, all that its picture and its tables are drawn from.

{"row": "figure", …}   once: what it is, at which size, on which text, from where
{"row": "cell", …}     each cell: how far it is, its size, its losses at the end
{"row": "median", …}   each whole stretch of batches of a cell: first, last, loss
{"row": "held-out", …} each scoring of the held-out text: step, loss
{"row": "batches", …}  Figure 9: all losses of a cell, from the first batch on
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from seqloom.analysis.origin import origin
from seqloom.experiments.paper.grid import Cell, Grid, Model
from seqloom.experiments.paper.progress import Progress, progress
from seqloom.experiments.paper.settings import differences
from seqloom.experiments.paper.study import Line, Study
from seqloom.runs.durable import replace

Row = dict[str, Any]
FORMAT = 1


def write(
    grid: Grid, study: Study, seeds: int, *, command: str = "", failed: Mapping[str, str] | None = None,
    raced: Mapping[Model, float] | None = None,
) -> list[Row]:  # fmt: skip
    """Reads what the cells have by now, and writes and returns the rows. `raced`: seconds of a step, all by turns."""
    rows = [_figure(grid, study, seeds, command), *_cells(grid, study, seeds, failed or {}, raced or {})]
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    replace(grid.out / f"{study.name}.jsonl", "".join(lines).encode())
    return rows


def _figure(grid: Grid, study: Study, seeds: int, command: str) -> Row:
    batches = max(grid.config(one.model).training.batches for one in study.lines)
    corpus, config = grid.corpus, grid.config(study.lines[0].model)
    count = min(seeds, study.most_seeds or seeds)
    return {
        "row": "figure",
        "format": FORMAT,
        "name": study.name,
        "heading": study.heading,
        "says": study.says,
        "kind": study.kind,
        "over": study.over,
        "scale": grid.scale.name,
        "differs": differences(grid, study),
        "batches": batches,
        "batch": config.training.batch,
        "stretch": study.batches(batches),
        "seeds": count,
        "paired": len({grid.config(study.lines[0].model, seed).data.seed for seed in range(count)}) > 1,
        "notes": [said for _, said in study.notes],
        "text": corpus.description.rpartition("/")[2],
        "identity": corpus.identity,
        "held_out_tokens": len(corpus.held),
        **grid.entropies,
        "origin": origin(command),
    }


def _cells(
    grid: Grid, study: Study, seeds: int, failed: Mapping[str, str], raced: Mapping[Model, float]
) -> Iterator[Row]:
    for number, one in enumerate(study.lines):
        sizes = _sizes(grid, one.model) | ({"raced": raced[one.model]} if one.model in raced else {})
        for seed in range(min(seeds, study.most_seeds or seeds)):
            cell = Cell(one.model, seed)
            found = progress(grid.folder(cell), grid.batches(cell))
            mark = {"cell": cell.name, "line": number, "seed": seed}
            stretch = study.batches(found.asked)
            yield {"row": "cell", **mark, **_cell(one, found, stretch, failed.get(cell.name)), **sizes}
            for first, last, loss in found.medians(stretch):
                yield {"row": "median", **mark, "first": first, "last": last, "loss": loss}
            for step, loss in found.held_out:
                yield {"row": "held-out", **mark, "step": step, "loss": loss}
            if study.kind == "batches" and found.losses:
                yield {
                    "row": "batches",
                    **mark,
                    "steps": [s for s, _ in found.losses],
                    "losses": [c for _, c in found.losses],
                }


def _cell(one: Line, found: Progress, stretch: int, why: str | None) -> Row:
    medians = found.medians(stretch)
    return {
        "series": one.series,
        "of": one.of,
        "x": one.x,
        "family": one.family,
        "batches": found.batches,
        "asked": found.asked,
        "finished": found.finished,
        "failed": why,
        "training": medians[-1][2] if medians else None,
        "held_out": found.held_out[-1][1] if found.finished else None,
        "seconds": found.seconds,
    }


def _sizes(grid: Grid, model: Model) -> Row:
    config = grid.config(model).model
    with torch.device("meta"):
        built = config.build()
    return {
        "parameters": sum(parameter.numel() for parameter in built.parameters()),
        "operations": built.cost(config.context).total // config.context,
    }
