"""Cells that run elsewhere: in processes of this machine, or as jobs of a cluster, followed by the rows they write.

    pip install 'seqloom[cluster]'
    seqloom study paper fig8 --scale full --cluster slurm --cluster-set slurm_partition=gpu

`python -m seqloom.experiments.workers` is such a process: it reads a pickled cell from standard input, whose end says
that the process which started it is gone; then it saves and ends. Exit code 0 when the cell is done, 128 + signal when
it was stopped, 2 with one line for an error. OUT must lie where the nodes of a cluster see it. A job that meets its
time limit is queued again and goes on from its last checkpoint; Ctrl-C leaves jobs working, and the same command
follows those that still wait or work.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, final

import torch

from seqloom.analysis.origin import origin
from seqloom.core.progress import Advance
from seqloom.core.yaml_text import parse_yaml
from seqloom.experiments.live_table import LiveTable
from seqloom.experiments.results import Results, save
from seqloom.experiments.study import Cell, RunCell, Stopped
from seqloom.runs.layout import make_folder, read_json, write_json
from seqloom.training.signals import Stop
from seqloom.training.train import Say, Show

EVERY = 0.5
"""seconds between two looks at the workers"""
TAIL = 1 << 18
"""bytes at the end of a file of rows that hold the last ones"""
CLUSTERS = ("slurm", "local")
MINUTES = 24 * 60
"""time limit of a job unless --cluster-set timeout_min=… gives another"""


class Worker(Protocol):
    """A process or job that runs one cell."""

    def alive(self) -> bool:
        """Whether it is running or waiting for its turn."""

    def stop(self) -> None:
        """Asks it to save and to end."""

    def why(self) -> str:
        """The reason why it ended without rows."""


class Pool(Protocol):
    """Starts workers, `most` at once; `leave` says whether they keep running after a signal to this process."""

    most: int
    leave: bool

    def start(self, cells: Sequence[Cell]) -> list[Worker]:
        """A worker for each cell."""


def follow(cells: Sequence[Cell], pool: Pool, results: Results, table: LiveTable) -> None:
    """Runs the cells in a pool and shows their progress until all have ended; failures are put into `results`.

    A signal asks the workers to save and waits for them, or leaves them working; then `Stopped`.
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
                    bar = ExitStack()
                    steps[cell.name], _ = last(results.out / cell.name / "metrics.jsonl")
                    total = cell.config.training.batches if isinstance(cell, RunCell) else 0
                    shown = table.show(cell.name, "training", total, "batches", start=steps[cell.name])
                    working.append((cell, worker, bar.enter_context(shown), bar))
            time.sleep(EVERY)
            for entry in list(working):
                cell, worker, advance, bar = entry
                ended = not worker.alive()  # asked first: what it wrote before it ended is read
                step, loss = last(results.out / cell.name / "metrics.jsonl")
                if step > steps[cell.name]:
                    advance(step - steps[cell.name], note=f"loss {loss:.3f}" if loss is not None else "")
                    steps[cell.name] = step
                if ended:
                    bar.close()
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
    if results.add(cell):
        table.done(cell.name, cell.text(results.rows[cell.name]))
    elif not stopping:
        results.failed[cell.name] = worker.why()
        table.failed(cell.name, results.failed[cell.name])


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
        except (ValueError, TypeError, KeyError):  # a torn line: the process is writing it now
            continue
    return 0, None


def reason(error: BaseException) -> str:
    """The reason why a cell failed, in one line."""
    if of_memory(error):
        return "out of memory: choose a smaller model or batch, or fewer --jobs"
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        why = f"{error.filename}: {why}" if error.filename else why
    else:
        why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return " ".join(why.split())


def of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's error, torch's of the CPU, or torch's of a GPU."""
    torchs = "can't allocate memory" in str(error) or type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and torchs)


@final
class Processes:
    """Processes of this machine, each with its share of the cores; what they print goes to OUT/logs."""

    leave = False

    def __init__(self, out: Path, jobs: int, command: str) -> None:
        self.most = jobs
        self._out, self._command = out, command
        self._threads = max(1, torch.get_num_threads() // jobs)

    def start(self, cells: Sequence[Cell]) -> list[Worker]:
        """See `Pool`."""
        return [Process(cell, self._out, self._threads, self._command) for cell in cells]


@final
class Process:
    """A process that runs one cell."""

    def __init__(self, cell: Cell, out: Path, threads: int, command: str) -> None:
        make_folder(out / "logs")
        self._log = out / "logs" / f"{cell.name.replace('/', '.')}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "seqloom.experiments.workers"],
                stdin=subprocess.PIPE, stdout=log, stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                start_new_session=True,  # a terminal's Ctrl-C reaches this process alone, which passes it on once
            )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps((cell, str(out), command)))
        self._process.stdin.flush()  # and stays open: its end tells the process that this one is gone

    def alive(self) -> bool:
        """See `Worker`."""
        return self._process.poll() is None

    def stop(self) -> None:
        """See `Worker`."""
        self._process.send_signal(signal.SIGTERM)

    def why(self) -> str:
        """See `Worker`: the signal that killed it, or the last line that it printed."""
        code = self._process.returncode
        if code < 0:
            name = signal.Signals(-code).name
            memory = ": the system does so when the memory is not enough" if name == "SIGKILL" else ""
            return f"its process was killed by {name}{memory}"
        if code > 128:
            return f"stopped by {signal.Signals(code - 128).name} and saved; the same command goes on"
        lines = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"its process ended with code {code} and printed nothing"


@final
class Task:
    """The function of a cluster's job, as submitit pickles it; at a time limit it is queued again."""

    def __call__(self, cell: Cell, out: str, command: str) -> None:
        """Runs the cell. RuntimeError where a signal stopped it, so that the job does not count as done."""
        code = work(cell, out, command)
        if code:
            raise RuntimeError(f"stopped by signal {code - 128} and saved")

    def checkpoint(self, *arguments: Any) -> Any:
        """The same task again: a run goes on from its last checkpoint."""
        return import_module("submitit.helpers").DelayedSubmission(self, *arguments)


@final
class Cluster:
    """Jobs of submitit; OUT/jobs/ids.json holds those of Slurm, so that none is submitted twice."""

    leave = True

    def __init__(self, out: Path, kind: str, settings: Sequence[str], most: int | None, command: str) -> None:
        """ValueError for settings that submitit does not take, and where there is no such cluster."""
        self.most = sys.maxsize
        self._out, self._command, self._slurm = out, command, kind == "slurm"
        self._submitit = _submitit()
        self._executor = _executor(self._submitit, out / "jobs", kind, settings, most)

    def start(self, cells: Sequence[Cell]) -> list[Worker]:
        """See `Pool`: jobs of an earlier command that still wait or work, and new ones as one array."""
        path = self._out / "jobs" / "ids.json"
        known: dict[str, str] = read_json(path) if self._slurm and path.exists() else {}
        jobs = {name: self._submitit.SlurmJob(self._out / "jobs", job) for name, job in known.items()}
        jobs = {name: job for name, job in jobs.items() if not job.done()}
        new = [cell for cell in cells if cell.name not in jobs]
        if new:
            make_folder(self._out / "jobs")
            count = len(new)
            outs, commands = [str(self._out.absolute())] * count, [self._command] * count
            jobs |= dict(
                zip((cell.name for cell in new), self._executor.map_array(Task(), new, outs, commands), strict=True)
            )
            write_json(path, known | {cell.name: str(jobs[cell.name].job_id) for cell in new})
        return [Job(jobs[cell.name]) for cell in cells]


@final
class Job:
    """A job of submitit that runs one cell."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def alive(self) -> bool:
        """See `Worker`."""
        return not self._job.done()

    def stop(self) -> None:
        """See `Worker`."""
        self._job.cancel()

    def why(self) -> str:
        """See `Worker`: the last line that the job wrote to standard error, and its state."""
        lines = [line for line in (self._job.stderr() or "").splitlines() if line.strip()]
        return f"job {self._job.job_id} {str(self._job.state).lower()}: {lines[-1] if lines else 'it printed nothing'}"


def require_cluster(kind: str) -> None:
    """ValueError for an unknown kind of cluster, and without submitit: before anything is measured."""
    if kind not in CLUSTERS:
        raise ValueError(f"--cluster {kind!r} is unknown; there is {' and '.join(CLUSTERS)}")
    _submitit()


def _submitit() -> Any:
    try:
        return import_module("submitit")
    except ImportError:
        raise ValueError("--cluster needs submitit: pip install 'seqloom[cluster]'") from None


def _executor(submitit: Any, folder: Path, kind: str, settings: Sequence[str], most: int | None) -> Any:
    wanted: dict[str, Any] = {"timeout_min": MINUTES, "name": "seqloom"}
    if most is not None:
        wanted["slurm_array_parallelism"] = most
    for change in settings:
        name, sign, value = change.partition("=")
        if not sign or not name:
            raise ValueError(f"--cluster-set needs name=value, such as slurm_partition=gpu, not {change!r}")
        try:
            wanted[name] = parse_yaml(value)
        except ValueError as error:
            raise ValueError(f"--cluster-set {name}: the value is not readable YAML ({error})") from None
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=kind)
        executor.update_parameters(**wanted)
    except (NameError, AssertionError, TypeError, RuntimeError) as error:  # what submitit raises for a wrong setting
        raise ValueError(f"submitit: {' '.join(str(error).split())}") from None
    return executor


def perform(cell: Cell, out: Path, command: str, say: Say, show: Show) -> None:
    """Runs a cell in this process and saves its rows."""
    folder = out / cell.name
    make_folder(folder)
    try:
        rows = cell.run(folder, say, show)
    except Stopped as stopped:
        if stopped.rows is not None:
            save(folder, cell, stopped.rows, origin(command))
            cell.tidy(folder)
        raise
    save(folder, cell, rows, origin(command))
    cell.tidy(folder)


def work(cell: Cell, out: str, command: str) -> int:
    """Runs a cell without a progress bar (its folder shows the progress), and returns the exit code."""
    try:
        perform(cell, Path(out), command, _say, _unshown)
    except Stopped as stopped:
        return stopped.code
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _unshown(label: str, total: float, unit: str = "", *, start: float = 0) -> Iterator[Advance]:
    yield lambda amount=1, note="": None


def _leave_with_the_parent() -> None:
    while os.read(0, 4096):  # not `sys.stdin`, whose lock a thread must not hold when Python ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _main() -> int:
    cell, out, command = pickle.load(sys.stdin.buffer)  # our own process wrote it
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    try:
        return work(cell, out, command)
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        _say(reason(error))
        return 2


if __name__ == "__main__":
    sys.exit(_main())
