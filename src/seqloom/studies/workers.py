"""Follows cells that run in other processes or as jobs of a cluster, by the rows that they write.

follow(cells, Processes(out, jobs=2, command), results, table)      see `processes` and `cluster` for the pools
"""

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from seqloom.core.progress import Advance
from seqloom.runs.code import changed_words
from seqloom.studies.again import edited_kinds
from seqloom.studies.live_table import LiveTable
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, RunCell, Stopped
from seqloom.training.signals import Stop

EVERY = 0.5
"""seconds between two checks of the workers"""
TAIL = 1 << 18
"""bytes that are read at the end of a file of rows, which hold the last rows"""


class Worker(Protocol):
    """A process or job that runs one cell."""

    def alive(self) -> bool:
        """Whether it is running or waiting for its turn."""

    def stop(self) -> None:
        """Tells it to save and to end."""

    def why(self) -> str:
        """The reason why it ended without rows."""


class Pool(Protocol):
    """Starts workers, at most `most` at once; `leave` says whether they keep running after a signal to this process."""

    most: int
    leave: bool

    def start(self, cells: Sequence[Cell]) -> Sequence[Worker]:
        """A worker for each cell."""


def follow(cells: Sequence[Cell], pool: Pool, results: Results, table: LiveTable) -> None:
    """Runs the cells in a pool and shows their progress until all have ended; failures are put into `results`.

    On a signal it tells the workers to save and waits for them, or leaves them running, and then raises `Stopped`.
    """
    waiting = list(cells)
    working: list[tuple[Cell, Worker, Advance, ExitStack]] = []
    steps: dict[str, int] = {}
    signaled = False
    with Stop() as stop:
        while waiting or working:
            room = pool.most - len(working)
            if waiting and room > 0 and not stop.asked:
                batch, waiting = waiting[:room], waiting[room:]
                for cell, worker in zip(batch, pool.start(batch), strict=True):
                    stack = ExitStack()
                    steps[cell.name], _ = last(results.out / cell.name / "metrics.jsonl")
                    total = cell.config.training.batches if isinstance(cell, RunCell) else 0
                    progress_bar = table.show(cell.name, "training", total, "batches", start=steps[cell.name])
                    working.append((cell, worker, stack.enter_context(progress_bar), stack))
            time.sleep(EVERY)
            for entry in list(working):
                cell, worker, advance, stack = entry
                ended = not worker.alive()  # asked before its rows are read, so that its last rows are not missed
                step, loss = last(results.out / cell.name / "metrics.jsonl")
                if step > steps[cell.name]:
                    advance(step - steps[cell.name], note=f"loss {loss:.3f}" if loss is not None else "")
                    steps[cell.name] = step
                if ended:
                    stack.close()
                    working.remove(entry)
                    _end(cell, worker, results, table, stopping=bool(stop.asked))
            if stop.asked and not signaled:
                signaled = True  # a second signal would end them at once
                waiting = []
                if pool.leave:
                    break
                table.say("stopping: the cells save first")
                for _, worker, _, _ in working:
                    worker.stop()
    if stop.asked:
        raise Stopped("the cells", 128 + int(stop.asked))


def _end(cell: Cell, worker: Worker, results: Results, table: LiveTable, *, stopping: bool) -> None:
    """Records the result of a cell whose worker has ended; while `stopping`, a cell without rows did not fail."""
    if results.add(cell):
        table.mark_done(cell.name, cell.text(results.rows[cell.name]))
    elif not stopping:
        kinds = edited_kinds(cell, results.out / cell.name)
        results.failed[cell.name] = f"{changed_words(kinds)} this command began" if kinds else worker.why()
        table.mark_failed(cell.name, results.failed[cell.name])


def last(path: Path) -> tuple[int, float | None]:
    """The last step with a training loss in a file of rows, and that loss; (0, None) where there is none."""
    if not path.is_file():
        return 0, None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        try:
            row = json.loads(line)
            if "loss" in row:
                return int(row["step"]), row["loss"]
        except (ValueError, TypeError, KeyError):  # an incomplete line, which the process is writing
            continue
    return 0, None
