"""Cells side by side on this machine, each in a process of its own with its share of the cores."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import final

import torch

from seqloom.experiments.paper.following import follow
from seqloom.experiments.paper.grid import Cell, Grid
from seqloom.experiments.paper.running import Failures
from seqloom.runs.layout import make_folder


@final
class Process:
    """A process that trains one cell; what it says goes to OUT/logs/NAME.log."""

    def __init__(self, grid: Grid, cell: Cell, threads: int, allow_drift: bool) -> None:
        make_folder(grid.out / "logs")
        self._log = grid.out / "logs" / f"{cell.name}.log"
        settings = grid.config(cell.model, cell.seed).model_dump(mode="json")
        task = {"settings": settings, "folder": str(grid.folder(cell)), "allow_drift": allow_drift}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "seqloom.experiments.paper.work"],
                stdin=subprocess.PIPE, stdout=log, stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                start_new_session=True,  # a terminal's Ctrl-C reaches this process alone, which passes it on once
            )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        self._process.stdin.flush()  # and stays open: its end tells the process that this one is gone

    def alive(self) -> bool:
        """See `Worker`."""
        return self._process.poll() is None

    def stop(self) -> None:
        """See `Worker`."""
        self._process.send_signal(signal.SIGTERM)

    def why(self) -> str:
        """See `Worker`: the last line of its log."""
        lines = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"it ended with code {self._process.returncode} and without a word"


def side_by_side(grid: Grid, cells: Sequence[Cell], jobs: int, *, allow_drift: bool = False) -> Failures:
    """Trains the cells, `jobs` at once. `Stopped` when a signal asks for it: all runs are saved."""
    threads = max(1, torch.get_num_threads() // jobs)
    return follow(grid, cells, lambda cell: Process(grid, cell, threads, allow_drift), jobs)
