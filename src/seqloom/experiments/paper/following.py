"""Cells that work elsewhere, followed by the rows that they write: processes beside this one, jobs of a cluster.

A cell's progress is read from the end of its metrics.jsonl, so that it does not matter where it runs.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from seqloom.core.progress import Advance
from seqloom.experiments.live_table import LiveTable
from seqloom.experiments.paper.grid import Cell, Grid
from seqloom.experiments.paper.running import Failures, asked
from seqloom.experiments.paper.standing import standing
from seqloom.experiments.study import Stopped
from seqloom.training.signals import Stop

EVERY = 0.5
"""seconds between two looks"""
TAIL = 1 << 18
"""bytes at the end of a file of rows that hold the last ones"""


class Worker(Protocol):
    """Somebody who trains one cell."""

    def alive(self) -> bool:
        """Whether it still works, or waits for its turn."""
        ...

    def stop(self) -> None:
        """Asks it to save and to end."""
        ...

    def why(self) -> str:
        """Its last words."""
        ...


def follow(
    grid: Grid, cells: Sequence[Cell], start: Callable[[Cell], Worker], most: int, *, leave: bool = False
) -> Failures:
    """Starts workers, at most `most` at once, and shows how far they are until all have ended; why cells failed.

    A signal asks the workers to save and waits for them, or, with `leave`, leaves them working; then `Stopped`.
    """
    waiting, working = list(cells), dict[Cell, tuple[Worker, Advance, ExitStack]]()
    steps: dict[Cell, int] = {}
    failed: Failures = {}
    told = False
    with LiveTable({cell.name: asked(grid, cell) for cell in cells}) as board, Stop() as stop:
        while waiting or working:
            while waiting and len(working) < most and not stop.asked:
                cell = waiting.pop(0)
                steps[cell] = standing(grid.folder(cell), asked(grid, cell)).batches
                bar = ExitStack()
                shown = board.show(cell.name, "training", asked(grid, cell), "batches", start=steps[cell])
                advance = bar.enter_context(shown)
                working[cell] = (start(cell), advance, bar)
            time.sleep(EVERY)
            for cell, (worker, advance, bar) in list(working.items()):
                ended = not worker.alive()  # asked first: what it wrote before it ended is seen
                _go_on(grid.folder(cell) / "metrics.jsonl", cell, steps, advance)
                if ended:
                    bar.close()
                    del working[cell]
                    _end(grid, cell, worker, board, failed, bool(stop.asked))
            if stop.asked and not told:
                told = True
                waiting.clear()
                if leave:
                    break
                board.say("stopping: the cells save first")
                for worker, _, _ in working.values():
                    worker.stop()
    if stop.asked:
        raise Stopped("the cells", 128 + int(stop.asked))
    return failed


def _go_on(path: Path, cell: Cell, steps: dict[Cell, int], advance: Advance) -> None:
    step, cost = last(path)
    if step > steps[cell]:
        advance(step - steps[cell], note=f"cost {cost:.3f}" if cost is not None else "")
        steps[cell] = step


def _end(grid: Grid, cell: Cell, worker: Worker, board: LiveTable, failed: Failures, stopping: bool) -> None:
    found = standing(grid.folder(cell), asked(grid, cell))
    if found.finished:
        board.done(cell.name, f"held-out loss {found.held_out[-1][1]:.4f}")
    elif not stopping:
        failed[cell.name] = worker.why()
        board.say(f"{cell.name} failed: {failed[cell.name]}")


def last(path: Path) -> tuple[int, float | None]:
    """The last step with a training cost in a file of rows, and that cost; (0, None) where there is none."""
    if not path.is_file():
        return 0, None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        try:
            row = json.loads(line)
            if "cost" in row:
                return int(row["step"]), row["cost"]
        except (ValueError, TypeError, KeyError):  # a torn line: the process is writing it now
            continue
    return 0, None
