"""Runs cells in processes of this machine, each on one of its GPUs where it has some.

This module, run by `core.children`, is such a process. It reads a pickled cell from standard input. When standard
input ends, the process that started it is gone, so it saves and ends. Its exit code is 0 when the cell is done, 128 +
signal when it was stopped, and 2, with one line, for an error.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import torch

from seqloom.core.children import module_words
from seqloom.runs.durable import open_new
from seqloom.runs.layout import make_inside
from seqloom.studies.perform import print_line, reason, work
from seqloom.studies.study import Cell

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""where CUDA reads which GPUs a process may use"""


@final
class Processes:
    """A pool of processes on this machine, which share the cores evenly; what they print goes to OUT/logs.

    Each sees one GPU alone, which no other has while there are as many as processes.
    """

    leave = False

    def __init__(self, out: Path, jobs: int, command: str) -> None:
        self.most = jobs
        self._out, self._command = out, command
        self._threads = max(1, torch.get_num_threads() // jobs)
        self._by_gpu: dict[str, list[Process]] = {gpu: [] for gpu in visible_gpus()}

    def start(self, cells: Sequence[Cell]) -> "list[Process]":
        """See `Pool`."""
        return [self._start(cell) for cell in cells]

    def _start(self, cell: Cell) -> "Process":
        """A process for a cell, on the GPU that the fewest processes have."""
        environment = {"OMP_NUM_THREADS": str(self._threads)}
        here: list[Process] = []
        if self._by_gpu:
            working = {gpu: sum(each.alive() for each in processes) for gpu, processes in self._by_gpu.items()}
            gpu = min(working, key=lambda name: working[name])
            environment[VISIBLE] = gpu
            here = self._by_gpu[gpu]
        process = Process(cell, self._out, environment, self._command)
        here.append(process)
        return process


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; none without a GPU."""
    count = torch.cuda.device_count()
    names = os.environ.get(VISIBLE)
    return [name.strip() for name in names.split(",")][:count] if names else [str(number) for number in range(count)]


@final
class Process:
    """A process that runs one cell."""

    def __init__(self, cell: Cell, out: Path, environment: Mapping[str, str], command: str) -> None:
        self._log = make_inside(out, "logs") / f"{cell.name.replace('/', '.')}.log"
        with open_new(self._log) as log:
            self._process = subprocess.Popen(
                [sys.executable, *module_words("seqloom.studies.processes")],
                stdin=subprocess.PIPE, stdout=log, stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,  # so that Ctrl-C reaches only the parent, which passes it on once
            )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps((cell, str(out), command)))
        self._process.stdin.flush()  # it stays open: where it ends, the child knows that its parent is gone

    def alive(self) -> bool:
        """See `Worker`."""
        return self._process.poll() is None

    def stop(self) -> None:
        """See `Worker`."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once; it saves nothing more."""
        self._process.kill()
        self._process.wait()

    def why(self) -> str:
        """See `Worker`: the signal that killed it, or the last line that it printed."""
        code = self._process.returncode
        if code < 0:
            name = signal.Signals(-code).name
            memory = ": the system does so when the memory is not enough" if name == "SIGKILL" else ""
            return f"its process was killed by {name}{memory}"
        if code > 128:
            return f"stopped by {signal.Signals(code - 128).name} and saved; the same command continues"
        lines = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"its process ended with code {code} and printed nothing"


def _stop_with_parent() -> None:
    """Waits until standard input ends, which means that the parent is gone, and stops this process."""
    while os.read(0, 4096):  # not by `sys.stdin`: a thread must not hold its lock when Python exits
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _main() -> int:
    cell, out, command = pickle.load(sys.stdin.buffer)  # written by our parent process
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        return work(cell, out, command)
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        print_line(reason(error))
        return 2


if __name__ == "__main__":
    sys.exit(_main())
