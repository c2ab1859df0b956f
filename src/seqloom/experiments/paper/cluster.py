"""Cells as jobs of a cluster, through submitit: Slurm, or its local executor.

    pip install 'seqloom[cluster]'
    seqloom paper fig8 --scale full --cluster slurm --cluster-set slurm_partition=gpu --cluster-set gpus_per_node=1

OUT must lie where the nodes see it. A job that meets its time limit is put in the queue again and goes on from its last
checkpoint. The command follows its jobs; Ctrl-C leaves them working, and the same command follows those that still
wait or work.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, final

from seqloom.core.yaml_text import parse_yaml
from seqloom.experiments.paper.following import follow
from seqloom.experiments.paper.grid import Cell, Grid
from seqloom.experiments.paper.running import Failures
from seqloom.experiments.paper.work import work
from seqloom.runs.layout import make_folder, read_json, write_json

KINDS = ("slurm", "local")
MINUTES = 24 * 60
"""time limit of a job unless --cluster-set timeout_min=… says another"""


@final
class Task:
    """What a job does, as submitit keeps it; at a time limit it asks for itself again."""

    def __call__(self, settings: dict[str, Any], folder: str, allow_drift: bool) -> int:
        """Trains the cell. RuntimeError where a signal stopped it, so that the job does not count as done."""
        code = work(settings, folder, allow_drift)
        if code:
            raise RuntimeError(f"stopped by signal {code - 128} and saved")
        return code

    def checkpoint(self, *arguments: Any) -> Any:
        """The same task again: the run goes on from its last checkpoint."""
        return import_module("submitit.helpers").DelayedSubmission(self, *arguments)


@final
class Job:
    """A job of submitit that trains one cell."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def alive(self) -> bool:
        """See `Worker`."""
        return not self._job.done()

    def stop(self) -> None:
        """See `Worker`."""
        self._job.cancel()

    def why(self) -> str:
        """See `Worker`: the last line of what the job wrote to standard error, and its state."""
        lines = [line for line in (self._job.stderr() or "").splitlines() if line.strip()]
        return f"job {self._job.job_id} {str(self._job.state).lower()}: {lines[-1] if lines else 'no word of it'}"


def submitted(
    grid: Grid,
    cells: Sequence[Cell],
    kind: str,
    sets: Sequence[str],
    *,
    most: int | None = None,
    allow_drift: bool = False,
) -> Failures:
    """Submits the cells that no job of before has, at most `most` to work at once, and follows all.

    ValueError, in one line, without submitit, for settings that it does not take, and where there is no such cluster.
    """
    submitit = _submitit()
    kept = grid.out / "jobs" / "ids.json"
    known: dict[str, str] = read_json(kept) if kind == "slurm" and kept.exists() else {}
    jobs = {cell: submitit.SlurmJob(grid.out / "jobs", known[cell.name]) for cell in cells if cell.name in known}
    jobs = {cell: job for cell, job in jobs.items() if not job.done()}
    new = [cell for cell in cells if cell not in jobs]
    if new:
        make_folder(grid.out / "jobs")
        executor = _executor(submitit, grid.out / "jobs", kind, sets, most)
        settings = [grid.config(cell.model, cell.seed).model_dump(mode="json") for cell in new]
        folders = [str(grid.folder(cell).absolute()) for cell in new]
        made = executor.map_array(Task(), settings, folders, [allow_drift] * len(new))
        jobs |= dict(zip(new, made, strict=True))
        write_json(kept, known | {cell.name: str(job.job_id) for cell, job in jobs.items()})
    return follow(grid, cells, lambda cell: Job(jobs[cell]), len(cells), leave=True)


def require(kind: str) -> None:
    """ValueError for an unknown kind of cluster, and without submitit: said before anything is measured."""
    if kind not in KINDS:
        raise ValueError(f"--cluster {kind!r} is unknown; there is {' and '.join(KINDS)}")
    _submitit()


def _submitit() -> Any:
    try:
        return import_module("submitit")
    except ImportError:
        raise ValueError("--cluster needs submitit: pip install 'seqloom[cluster]'") from None


def _executor(submitit: Any, folder: Path, kind: str, sets: Sequence[str], most: int | None) -> Any:
    wanted: dict[str, Any] = {"timeout_min": MINUTES, "name": "seqloom-paper"}
    if most is not None:
        wanted["slurm_array_parallelism"] = most
    for change in sets:
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
