"""What `seqloom paper` does: the plan, the cells, and then each figure as rows, page and table."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.cli.comparing import typed
from seqloom.core.seeds import require_count
from seqloom.core.table import table
from seqloom.experiments.paper import cluster, racing, tables, writings
from seqloom.experiments.paper.grid import Cell, Grid
from seqloom.experiments.paper.plan import plan
from seqloom.experiments.paper.processes import side_by_side
from seqloom.experiments.paper.rows import write
from seqloom.experiments.paper.running import Failures, one_by_one, unfinished
from seqloom.experiments.paper.scales import scale_of
from seqloom.experiments.paper.studies import STUDIES, named
from seqloom.experiments.paper.study import Study
from seqloom.experiments.study import Stopped
from seqloom.report.plates import page
from seqloom.report.plates.compared import Compared
from seqloom.report.plates.rows import read
from seqloom.report.plates.table import columns, table_rows


@final
@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    scale: str
    out: Path | None
    source: str | None
    plan: bool
    seeds: int | None
    batches: int | None
    only: tuple[str, ...]
    sets: tuple[str, ...]
    jobs: int
    cluster: str | None
    cluster_sets: tuple[str, ...]
    allow_drift: bool


def replicated(names: Sequence[str], asked: Asked) -> int:
    """Does what is asked for and returns the exit code: of a signal if one stopped it, 2 where a cell failed."""
    figures, numbers = named(names)
    scale = scale_of(asked.scale)
    _require_counts(asked)
    if asked.cluster is not None:
        cluster.require(asked.cluster)
    elif asked.cluster_sets:
        raise ValueError("--cluster-set is of the jobs of a cluster: give --cluster slurm or local too")
    plain = [number for number in numbers if number != "table2"]
    if plain:
        print("\n\n".join(tables.shown(int(number.removeprefix("table"))) for number in plain))
    if len(plain) == len(figures) + len(numbers):
        return 0
    out = asked.out or Path("runs") / f"paper-{asked.scale}"
    grid = Grid(scale, out, source=asked.source, sets=asked.sets, batches=asked.batches)
    if not asked.plan or (out / "config.json").exists():
        grid.claim()
    studies = [(STUDIES[name](grid).only(asked.only), asked.seeds or scale.seeds.get(name, 1)) for name in figures]
    cells = list(dict.fromkeys(cell for study, seeds in studies for cell in study.cells(seeds)))
    writers = writings.cells(grid) if "table2" in numbers else []
    cells += [cell for cell in writers if cell not in cells]
    todo = unfinished(grid, cells)
    print(f"{plan(grid, cells)}\n", flush=True)
    if asked.plan:
        return 0
    failed: Failures = {}
    code = 0
    try:
        failed = _train(grid, todo, asked) if todo else {}
    except (Stopped, KeyboardInterrupt) as stopped:
        code = stopped.code if isinstance(stopped, Stopped) else 130
        print(stopped if str(stopped) else "stopped", file=sys.stderr)
    for study, seeds in studies:
        _show(grid, study, seeds, failed, racing_too=code == 0 and asked.cluster is None)
    if writers and code == 0:
        print("\nTable 2: generated texts, top-p 0.6\n")
        print("\n\n".join(_told(each) for each in writings.write(grid, typed())))
    for name, why in failed.items():
        print(f"seqloom: {name} failed: {' '.join(why.split())}", file=sys.stderr)
    return code or (2 if failed else 0)


def _require_counts(asked: Asked) -> None:
    if asked.seeds is not None:
        require_count(asked.seeds, "--seeds")
    for name, value in (("--jobs", asked.jobs), ("--batches", asked.batches)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")


def _train(grid: Grid, cells: Sequence[Cell], asked: Asked) -> Failures:
    drift = asked.allow_drift
    if asked.cluster is not None:
        most = asked.jobs if asked.jobs > 1 else None
        return cluster.submitted(grid, cells, asked.cluster, asked.cluster_sets, most=most, allow_drift=drift)
    if asked.jobs > 1 and len(cells) > 1:
        return side_by_side(grid, cells, min(asked.jobs, len(cells)), allow_drift=drift)
    return one_by_one(grid, cells, allow_drift=drift)


def _show(grid: Grid, study: Study, seeds: int, failed: Failures, *, racing_too: bool) -> None:
    """Writes the rows and the page of a study, and prints its table."""
    race = racing_too and study.kind == "points" and not unfinished(grid, study.cells(seeds))
    raced = racing.raced(grid, study.name, [line.model for line in study.lines]) if race else {}
    write(grid, study, seeds, command=typed(), failed=failed, raced=raced)
    rows = grid.out / f"{study.name}.jsonl"
    path, plate = page.write(rows), read(rows)
    head = ["model", *(column.name for column in columns(plate))]
    body = table(head, [[line.series, *row] for line, row in table_rows(plate)])
    beneath = Compared(plate, "held_out").beneath
    print("\n".join([study.heading, " ".join(page.caption(plate)), "", body, beneath, *plate.figure["notes"]]))
    print(f"\nthe figure is {path}, its rows are {rows}\n", flush=True)


def _told(each: writings.Writing) -> str:
    if each.text is None:
        return f"{each.name} (unfinished): no checkpoint yet"
    far = "" if each.batches >= each.asked else f" (unfinished: {each.batches:,} of {each.asked:,} batches)"
    return f"{each.name}{far}: {each.text}"
