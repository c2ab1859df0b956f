"""Runs the cells of a study: one by one in this process, several at once, on several machines, or as jobs of a cluster.

    results = run(study, Path("runs/compare"), Workers(jobs=2))

A cell that is done is not run again. A cell that fails (by an error, a killed process, lack of memory, a full disk) is
recorded with the reason, and the other cells run; the same command tries it again. Cells that are timed (`Cell.alone`)
run after the other cells of their stage, one at a time in this process, with all cores. On a signal the running cells
are saved, and `Stopped` is raised.
"""

import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from seqloom.core.progress import Say
from seqloom.runs.durable import replace_text
from seqloom.runs.layout import make_folder, make_inside, open_run
from seqloom.runs.lease import PATIENCE, hold
from seqloom.runs.lock import lock
from seqloom.studies.again import choose_cells, forget, require_same_code
from seqloom.studies.cluster import Cluster, require_cluster
from seqloom.studies.live_table import LiveTable
from seqloom.studies.perform import of_memory, perform, print_line, reason
from seqloom.studies.processes import Processes
from seqloom.studies.results import Results
from seqloom.studies.shared import Shared
from seqloom.studies.study import Cell, Stopped, Study
from seqloom.studies.workers import Pool, follow
from seqloom.training.memory import keep_freed_memory


@final
@dataclass(frozen=True)
class Workers:
    """Where cells run: `jobs` at once on this machine, or as jobs of a `cluster` (slurm, or local for tests)."""

    jobs: int = 1
    cluster: str | None = None
    cluster_settings: tuple[str, ...] = ()
    """settings `name=value` of submitit, such as slurm_partition=gpu"""
    share: bool = False
    """whether other machines run the same study in the same folder at once"""
    patience: float = PATIENCE
    """with `share`: seconds without a sign of another machine after which its cells are taken"""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"--jobs must be at least 1, not {self.jobs}")
        if self.share and self.cluster is not None:
            raise ValueError("--share runs cells on this machine and --cluster as jobs: leave one of them out")
        if self.cluster is not None:
            require_cluster(self.cluster)
        elif self.cluster_settings:
            raise ValueError("--cluster-set holds settings of cluster jobs: give --cluster slurm or local too")

    def pool(self, out: Path, command: str) -> Pool | None:
        """The pool that runs the cells of a stage; None where they run in this process."""
        if self.cluster is not None:
            return Cluster(out, self.cluster, self.cluster_settings, self.jobs, command)
        if self.share:
            return Shared(out, Processes(out, self.jobs, command), self.patience)
        return Processes(out, self.jobs, command) if self.jobs > 1 else None

    def turn(self, out: Path, what: str, say: Say) -> AbstractContextManager[None]:
        """The block in which this machine alone does `what`, of those that share the folder."""
        return hold(make_inside(out, "leases") / what, self.patience, say) if self.share else nullcontext()


def preview(study: Study, out: Path) -> list[Cell]:
    """The cells of all stages, as far as they are known before anything runs. ValueError where there are none."""
    cells = _add_finished(study, Results(out))
    if not cells:
        raise ValueError(f"the study {study.name} has no cells: name something to be run or measured")
    return cells


def known_results(study: Study, out: Path) -> Results:
    """The rows of the cells that are done so far."""
    results = Results(out)
    _add_finished(study, results)
    return results


def _add_finished(study: Study, results: Results) -> list[Cell]:
    """Adds the rows of finished cells to `results`; returns the cells of all stages that are known so far."""
    cells: list[Cell] = []
    for stage in study.stages(results):
        for cell in stage:
            results.add(cell)
        cells += stage
    return cells


def run(
    study: Study,
    out: Path,
    workers: Workers | None = None,
    *,
    command: str = "",
    again: Sequence[str] | None = None,
) -> Results:
    """Runs all cells that are not done and writes OUT/results.jsonl.

    `again` names the contenders or kinds of mixers whose cells are repeated; it is None where the command has no such
    option. Raises ValueError, before anything runs, for a study without cells, and where OUT or a run in it has other
    settings or was computed with other code; `Stopped` where a signal ended it.
    """
    workers = workers or Workers()
    if workers.share and again:
        raise ValueError("--again would repeat what other machines have done: repeat it in one command without --share")
    cells = preview(study, out)
    repeated = choose_cells(cells, again or [])
    names = {cell.name for cell in repeated}
    require_same_code([cell for cell in cells if cell.name not in names], out, repeats=again is not None)
    for cell in cells:
        cell.check(out / cell.name)
    pool = workers.pool(out, command)
    make_folder(out)
    with workers.turn(out, "settings", print_line), lock(out):
        open_run(out, {"study": study.name, **study.settings})
    forget(repeated, out)
    keep_freed_memory()
    results = Results(out)
    try:
        with LiveTable({cell.name: _effort(cell) for cell in cells}) as table:
            for stage in study.stages(results):
                _run_stage(stage, results, table, workers, pool, command)
    except (Stopped, KeyboardInterrupt):
        with suppress(OSError):
            results.write()
        raise
    for cell in cells:
        if cell.name in results.failed:
            results.add(cell)  # another machine may have run it since
    results.write()
    return results


def _run_stage(
    stage: Sequence[Cell], results: Results, table: LiveTable, workers: Workers, pool: Pool | None, command: str
) -> None:
    """Runs the cells of one stage, those that need the machine alone last."""
    unfinished = []
    for cell in stage:
        if results.add(cell):
            table.already(cell.name, cell.text(results.rows[cell.name]))
        else:
            unfinished.append(cell)
    in_pool = [cell for cell in unfinished if not cell.alone] if pool is not None else []
    if pool is not None and in_pool:
        follow(in_pool, pool, results, table)
    here = [cell for cell in unfinished if cell not in in_pool]
    with workers.turn(results.out, "timing", table.say) if here else nullcontext():
        for cell in here:
            if results.add(cell):
                table.mark_done(cell.name, cell.text(results.rows[cell.name]))
            else:
                _run_here(cell, results, table, command)


def _run_here(cell: Cell, results: Results, table: LiveTable, command: str) -> None:
    """Runs one cell in this process."""
    try:
        perform(cell, results.out, command, table.say, partial(table.show, cell.name))
        results.add(cell)
    except Stopped:
        results.add(cell)
        raise
    except KeyboardInterrupt:  # Ctrl-C in a measurement, which saves its rows only at its end
        raise Stopped(cell.name, 130) from None
    except Exception as error:
        results.failed[cell.name] = reason(error)
        if not isinstance(error, (ValueError, OSError)) and not of_memory(error):
            _log(results.out, cell.name)
        table.mark_failed(cell.name, results.failed[cell.name])
    else:
        table.mark_done(cell.name, cell.text(results.rows[cell.name]))


def _log(out: Path, name: str) -> None:
    """Saves the traceback of an unexpected error."""
    path = out / "logs" / f"{name.replace('/', '.')}.log"
    try:
        make_inside(out, path.parent.name)
        replace_text(path, traceback.format_exc())
    except (OSError, ValueError):
        traceback.print_exc(file=sys.stderr)


def _effort(cell: Cell) -> float:
    return sum(count for _, count in cell.steps())
