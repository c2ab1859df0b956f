"""Runs cells as jobs of a cluster, by submitit.

    pip install 'seqloom[cluster]'
    seqloom study paper fig8 --scale full --cluster slurm --cluster-set slurm_partition=gpu

OUT must be on a file system that the nodes of the cluster share. A job that reaches its time limit is queued again and
continues from its last checkpoint. Ctrl-C leaves the jobs running; the same command then follows the jobs that still
wait or run.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, final

from seqloom.core.children import safe_path
from seqloom.core.yaml_text import parse_yaml
from seqloom.runs.layout import make_inside, read_json, write_json
from seqloom.studies.perform import work
from seqloom.studies.study import Cell
from seqloom.studies.workers import Worker

CLUSTERS = ("slurm", "local")
MINUTES = 24 * 60
"""time limit of a job unless --cluster-set timeout_min=… gives another"""


@final
class Task:
    """The function of a job, which submitit pickles; at the time limit it is queued again."""

    def __call__(self, cell: Cell, out: str, command: str) -> None:
        """Runs the cell. RuntimeError where a signal stopped it, so that the job does not count as done."""
        code = work(cell, out, command)
        if code:
            raise RuntimeError(f"stopped by signal {code - 128} and saved")

    def checkpoint(self, *arguments: Any) -> Any:
        """The same task again, for submitit to queue: a run continues from its last checkpoint."""
        return import_module("submitit.helpers").DelayedSubmission(self, *arguments)


@final
class Cluster:
    """A pool of jobs; OUT/jobs/ids.json has the ids of Slurm's, so that no cell is submitted twice."""

    leave = True

    def __init__(self, out: Path, kind: str, settings: Sequence[str], most: int, command: str) -> None:
        """Raises ValueError for settings that submitit does not accept, and where there is no such cluster.

        On this machine (`local`) at most `most` jobs run at once. Slurm gets all jobs of a stage as one array, which it
        limits to `most` at once if that is more than 1.
        """
        self.most = most if kind == "local" else sys.maxsize
        self._out, self._command, self._slurm = out, command, kind == "slurm"
        self._submitit = _submitit()
        self._executor = _executor(self._submitit, out / "jobs", kind, settings, most)

    def start(self, cells: Sequence[Cell]) -> list[Worker]:
        """As `Pool.start`: takes over jobs of an earlier command that wait or run, and submits the rest as an array."""
        path = self._out / "jobs" / "ids.json"
        stored_ids: dict[str, str] = read_json(path) if self._slurm and path.exists() else {}
        jobs = {name: self._submitit.SlurmJob(self._out / "jobs", job) for name, job in stored_ids.items()}
        jobs = {name: job for name, job in jobs.items() if not job.done()}
        new = [cell for cell in cells if cell.name not in jobs]
        if new:
            make_inside(self._out, "jobs")
            outs = [str(self._out.absolute())] * len(new)
            commands = [self._command] * len(new)
            with safe_path():
                submitted = self._executor.map_array(Task(), new, outs, commands)
            jobs |= {cell.name: job for cell, job in zip(new, submitted, strict=True)}
            write_json(path, stored_ids | {cell.name: str(jobs[cell.name].job_id) for cell in new})
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
    """Raises ValueError for an unknown kind of cluster, and where submitit is not installed."""
    if kind not in CLUSTERS:
        raise ValueError(f"--cluster {kind!r} is unknown; there is {' and '.join(CLUSTERS)}")
    _submitit()


def _submitit() -> Any:
    try:
        return import_module("submitit")
    except ImportError:
        raise ValueError("--cluster needs submitit: pip install 'seqloom[cluster]'") from None


def _executor(submitit: Any, folder: Path, kind: str, settings: Sequence[str], most: int) -> Any:
    """submitit's executor with these settings. ValueError for a setting that submitit does not accept."""
    parameters: dict[str, Any] = {"timeout_min": MINUTES, "name": "seqloom"}
    if most > 1:
        parameters["slurm_array_parallelism"] = most
    for change in settings:
        name, sign, value = change.partition("=")
        if not sign or not name:
            raise ValueError(f"--cluster-set needs name=value, such as slurm_partition=gpu, not {change!r}")
        try:
            parameters[name] = parse_yaml(value)
        except ValueError as error:
            raise ValueError(f"--cluster-set {name}: the value is not readable YAML ({error})") from None
    missing = [path for path in (folder, folder.parent) if not path.exists()]
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=kind)
        executor.update_parameters(**parameters)
    except (NameError, AssertionError, TypeError, RuntimeError) as error:  # what submitit raises for a wrong setting
        for path in missing:  # submitit makes its folder before it looks at the settings
            with suppress(OSError):
                path.rmdir()
        raise ValueError(f"submitit: {' '.join(str(error).split())}") from None
    return executor
