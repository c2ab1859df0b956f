"""Cells elsewhere: in processes of their own, stopped together, and as jobs of a cluster."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqloom.experiments.paper import cluster, following
from seqloom.experiments.paper.cluster import Task, submitted
from seqloom.experiments.paper.following import follow, last
from seqloom.experiments.paper.grid import Cell, Grid
from seqloom.experiments.paper.processes import side_by_side
from seqloom.experiments.paper.running import one_by_one, unfinished
from seqloom.experiments.paper.scales import scale_of
from seqloom.experiments.paper.standing import standing
from seqloom.experiments.paper.studies import STUDIES
from seqloom.experiments.study import Stopped


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grid:
    monkeypatch.setattr(following, "EVERY", 0.02)
    return Grid(scale_of("tiny"), tmp_path)


def cells(grid: Grid) -> list[Cell]:
    return STUDIES["fig9"](grid).cells(1)


@pytest.mark.slow
def test_side_by_side_is_one_by_one_and_says_what_fails(grid: Grid, tmp_path: Path) -> None:
    bad, good = cells(grid)
    grid.folder(bad).mkdir(parents=True)
    (grid.folder(bad) / "metrics.jsonl").write_text("")  # a run without its settings
    failed = side_by_side(grid, [bad, good], 2)
    assert list(failed) == [bad.name]
    assert "config.json" in failed[bad.name]
    assert unfinished(grid, [good]) == []
    other = Grid(scale_of("tiny"), tmp_path / "alone")
    assert one_by_one(other, [good]) == {}
    assert standing(grid.folder(good), 12).costs == standing(other.folder(good), 12).costs


@pytest.mark.slow
def test_a_signal_saves_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "EVERY", 0.02)
    grid = Grid(scale_of("tiny"), tmp_path, batches=1_000_000, sets=["training.evaluate_every=0"])

    def ask() -> None:
        for cell in cells(grid):
            while last(grid.folder(cell) / "metrics.jsonl")[0] < 5:
                time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=ask, daemon=True).start()
    with pytest.raises(Stopped) as stopped:
        side_by_side(grid, cells(grid), 2)
    assert stopped.value.code == 128 + signal.SIGINT
    for cell in cells(grid):
        step = last(grid.folder(cell) / "metrics.jsonl")[0]
        assert (grid.folder(cell) / "checkpoints" / f"step_{step:08d}").is_dir()


@pytest.mark.slow
def test_a_cell_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    grid = Grid(scale_of("tiny"), tmp_path, batches=1_000_000)
    settings = grid.config(grid.model("me")).model_dump(mode="json")
    folder = tmp_path / "cell"
    task = json.dumps({"settings": settings, "folder": str(folder), "allow_drift": False})
    words = [sys.executable, "-m", "seqloom.experiments.paper.work"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(task + "\n")
        process.stdin.flush()
        end = time.monotonic() + 60
        while last(folder / "metrics.jsonl")[0] < 3 and time.monotonic() < end:
            time.sleep(0.02)
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert (folder / "checkpoints" / f"step_{last(folder / 'metrics.jsonl')[0]:08d}").is_dir()


def test_last_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert last(path) == (0, None)
    path.write_text('{"step": 1, "cost": 5.0}\n{"step": 2, "cost": 4.0}\n{"step": 2, "held_out": 4.5}\n{"step": 3, "co')
    assert last(path) == (2, 4.0)


class Idle:
    """A worker that ends after some looks, as it is told to."""

    def __init__(self, looks: int) -> None:
        self.looks, self.stopped = looks, False

    def alive(self) -> bool:
        self.looks -= 1
        return self.looks > 0

    def stop(self) -> None:
        self.stopped = True

    def why(self) -> str:
        return "idle"


def test_no_more_than_some_at_once(grid: Grid) -> None:
    working: list[int] = []
    workers: list[Idle] = []

    def start(cell: Cell) -> Idle:
        working.append(1 + sum(worker.looks > 0 for worker in workers))
        workers.append(Idle(3))
        return workers[-1]

    study = STUDIES["fig8"](grid).cells(1)
    failed = follow(grid, study, start, 2)
    assert failed == dict.fromkeys((cell.name for cell in study), "idle")
    assert max(working) == 2


class Cluster:
    """Stands in for submitit: what is asked of it, and jobs that work at once, in this process."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.submissions: list[str] = []
        self.SlurmJob = lambda folder, job_id: SimpleNamespace(job_id=job_id, done=lambda: False)

    def AutoExecutor(self, folder: Path, cluster: str) -> "Cluster":
        self.settings = {"folder": folder, "cluster": cluster}
        return self

    def update_parameters(self, **settings: Any) -> None:
        if "partition" in settings:
            raise NameError("Unknown argument 'partition'\nKnown executors: slurm, local")
        self.settings |= settings

    def map_array(self, task: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        for settings, folder, drift in zip(*columns, strict=True):
            self.submissions.append(Path(folder).name)
            task(settings, folder, drift)
        return [
            SimpleNamespace(job_id=str(at), done=lambda: True, stderr=lambda: "", state="COMPLETED")
            for at, _ in enumerate(columns[0])
        ]


@pytest.fixture
def submitit(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(cluster, "_submitit", lambda: made)
    return made


def test_jobs_of_a_cluster(grid: Grid, submitit: Cluster) -> None:
    assert submitted(grid, cells(grid), "slurm", ["slurm_partition=gpu", "timeout_min=90"], most=4) == {}
    assert submitit.settings == {
        "folder": grid.out / "jobs", "cluster": "slurm", "name": "seqloom-paper", "timeout_min": 90,
        "slurm_partition": "gpu", "slurm_array_parallelism": 4,
    }  # fmt: skip
    assert submitit.submissions == [cell.name for cell in cells(grid)]
    assert unfinished(grid, cells(grid)) == []
    assert json.loads((grid.out / "jobs" / "ids.json").read_text()) == {
        cell.name: str(at) for at, cell in enumerate(cells(grid))
    }


def test_a_job_that_still_waits_is_not_submitted_again(grid: Grid, submitit: Cluster) -> None:
    first, second = cells(grid)
    (grid.out / "jobs").mkdir()
    (grid.out / "jobs" / "ids.json").write_text(json.dumps({first.name: "17_0"}))
    ended = iter([False, True, True, True])
    submitit.SlurmJob = lambda folder, job_id: SimpleNamespace(
        job_id=job_id, done=lambda: next(ended), stderr=lambda: "out of memory\n", state="FAILED"
    )
    failed = submitted(grid, [first, second], "slurm", [])
    assert submitit.submissions == [second.name]
    assert failed == {first.name: "job 17_0 failed: out of memory"}


@pytest.mark.parametrize(
    ("setting", "says"),
    [("partition=gpu", "submitit: Unknown argument 'partition' Known executors"), ("gpu", "--cluster-set needs name=")],
)
def test_settings_that_a_cluster_does_not_take(grid: Grid, submitit: Cluster, setting: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        submitted(grid, cells(grid), "local", [setting])


def test_a_task_that_is_stopped_is_not_done(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "work", lambda settings, folder, drift: 128 + signal.SIGTERM)
    with pytest.raises(RuntimeError, match="stopped by signal 15 and saved"):
        Task()({}, "cell", False)
