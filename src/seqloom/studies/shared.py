"""Cells of one study on several machines: the same command on each, with one shared folder, takes free cells.

    seqloom compare attention he --out /shared/compare --seeds 8 --jobs 4 --share       on every machine

Each cell has a lease in its folder (`runs.lease`). Where a machine dies, its cells are taken by the others, which go on
after the last checkpoint. A cell that failed on one machine is tried by the others, once each. Its rows are one file,
which is replaced as a whole, so that a cell never has its rows twice.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

from seqloom.runs.layout import make_inside
from seqloom.runs.lease import LOOKS, Lease
from seqloom.runs.lock import is_held
from seqloom.studies.perform import reason
from seqloom.studies.processes import Process, Processes
from seqloom.studies.results import load
from seqloom.studies.study import Cell


@final
class Shared:
    """A pool of all cells, of which those run in `processes` whose lease this machine gets."""

    leave = False
    most = sys.maxsize

    def __init__(self, out: Path, processes: Processes, patience: float) -> None:
        self.out = out
        self.patience = patience
        self._processes = processes
        self._workers: list[SharedWorker] = []

    def start(self, cells: Sequence[Cell]) -> "list[SharedWorker]":
        """See `Pool`: the workers wait for a lease and for their turn on this machine."""
        self._workers = [SharedWorker(cell, self) for cell in cells]
        return self._workers

    @property
    def has_room(self) -> bool:
        """Whether this machine can run one more cell."""
        return sum(worker.runs_here for worker in self._workers) < self._processes.most

    def run(self, cell: Cell) -> Process:
        """A process for a cell."""
        return self._processes.start([cell])[0]


@final
class SharedWorker:
    """Waits until a cell is done elsewhere, or can be run here, and then runs it."""

    def __init__(self, cell: Cell, pool: Shared) -> None:
        self._cell, self._pool = cell, pool
        self._folder = make_inside(pool.out, cell.name)
        self._lease = Lease(self._folder / "lease", pool.patience)
        self._process: Process | None = None
        self._why = "another machine has it"
        self._stopped = False
        self._next_look = 0.0

    @property
    def runs_here(self) -> bool:
        """Whether it has a process on this machine."""
        return self._process is not None

    def alive(self) -> bool:
        """See `Worker`; called often, it also renews the lease."""
        if self._process is None:
            return not self._stopped and self._waits()
        if not self._process.alive():
            self._end(self._process)
            return False
        if not self._lease.renew():
            self._process.kill()  # this machine stood still, and another has the cell
            self._process = None
        return True

    def stop(self) -> None:
        """See `Worker`."""
        self._stopped = True
        if self._process is not None:
            self._process.stop()

    def why(self) -> str:
        """See `Worker`."""
        return self._why

    def _waits(self) -> bool:
        """Looks, from time to time, whether the cell is done or free, and starts it; False where it has ended."""
        now = time.monotonic()
        if now < self._next_look:
            return True
        self._next_look = now + self._pool.patience / LOOKS
        if self._is_done():
            return False
        try:
            if self._pool.has_room and self._lease.take():
                return self._begin()
        except OSError as error:
            self._why = reason(error)
            return False
        return True

    def _begin(self) -> bool:
        """Starts the cell, whose lease is taken; False where it was done meanwhile."""
        if self._is_done():
            self._lease.remove()
            return False
        if is_held(self._folder):  # by a process whose command died, and which still saves
            self._lease.give_up()
        else:
            self._process = self._pool.run(self._cell)
        return True

    def _end(self, process: Process) -> None:
        """Gives the lease up: without rows, others may try the cell."""
        self._process = None
        if self._is_done():
            self._lease.remove()
        else:
            self._why = process.why()
            self._lease.give_up()

    def _is_done(self) -> bool:
        return load(self._folder, self._cell) is not None
