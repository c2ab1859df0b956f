"""A figure's rows in OUT/NAME.jsonl, from which its chart and its tables are drawn.

{"row": "figure", …}   once: title, sizes, text, origin
{"row": "cell", …}     once per run: progress, size, losses at the end
{"row": "median", …}   once per complete stretch of a run's batches: first and last step, median loss
{"row": "held-out", …} once per score on held-out text: step, loss
{"row": "batches", …}  Figure 9: the losses of all batches of a run
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from seqloom.analysis.origin import origin
from seqloom.runs.durable import replace
from seqloom_studies.paper.grid import Cell, Grid, Model
from seqloom_studies.paper.progress import Progress, progress
from seqloom_studies.paper.settings import differences
from seqloom_studies.paper.study import Line, Study

Row = dict[str, Any]
FORMAT = 1


def write(
    grid: Grid, study: Study, seeds: int, *, command: str = "", failed: Mapping[str, str] | None = None,
    raced: Mapping[Model, float] | None = None,
) -> list[Row]:  # fmt: skip
    """Reads the rows that the runs have so far, and writes and returns those of the figure.

    failed: reasons by the name of a run; raced: seconds of a training step by model.
    """
    rows = [_figure(grid, study, seeds, command), *_cells(grid, study, seeds, failed or {}, raced or {})]
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    replace(grid.out / f"{study.name}.jsonl", "".join(lines).encode())
    return rows


def _figure(grid: Grid, study: Study, seeds: int, command: str) -> Row:
    """The row of the figure: its title, its settings, its text and its origin."""
    batches = max(grid.config(line.model).training.batches for line in study.lines)
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
        "notes": [text for _, text in study.notes],
        "text": corpus.description.rpartition("/")[2],
        "identity": corpus.identity,
        "held_out_tokens": len(corpus.held_out),
        **grid.entropies,
        "origin": origin(command),
    }


def _cells(
    grid: Grid, study: Study, seeds: int, failed: Mapping[str, str], raced: Mapping[Model, float]
) -> Iterator[Row]:
    """The rows of all runs of a figure, line by line and seed by seed."""
    for number, line in enumerate(study.lines):
        sizes = _sizes(grid, line.model) | ({"raced": raced[line.model]} if line.model in raced else {})
        for seed in range(min(seeds, study.most_seeds or seeds)):
            cell = Cell(line.model, seed)
            so_far = progress(grid.folder(cell), grid.batches(cell))
            run = {"cell": cell.name, "line": number, "seed": seed}
            stretch = study.batches(so_far.asked)
            yield {"row": "cell", **run, **_cell(line, so_far, stretch, failed.get(cell.name)), **sizes}
            for first, last, loss in so_far.medians(stretch):
                yield {"row": "median", **run, "first": first, "last": last, "loss": loss}
            for step, loss in so_far.held_out:
                yield {"row": "held-out", **run, "step": step, "loss": loss}
            if study.kind == "batches" and so_far.losses:
                yield {
                    "row": "batches",
                    **run,
                    "steps": [step for step, _ in so_far.losses],
                    "losses": [loss for _, loss in so_far.losses],
                }


def _cell(line: Line, so_far: Progress, stretch: int, why: str | None) -> Row:
    """The columns of a run that describe its line and its progress so far."""
    medians = so_far.medians(stretch)
    return {
        "series": line.series,
        "of": line.of,
        "x": line.x,
        "family": line.family,
        "batches": so_far.batches,
        "asked": so_far.asked,
        "finished": so_far.is_finished,
        "failed": why,
        "training": medians[-1][2] if medians else None,
        "held_out": so_far.held_out[-1][1] if so_far.is_finished else None,
        "seconds": so_far.seconds,
    }


def _sizes(grid: Grid, model: Model) -> Row:
    """The parameters of a model, and its operations per token."""
    config = grid.config(model).model
    with torch.device("meta"):
        module = config.build()
    return {
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "operations": module.cost(config.context).total // config.context,
    }
