"""Cells in other processes, stopped together, and as jobs of a cluster."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from seqloom.core.children import SAFE, module_words
from seqloom.studies import cluster, processes, workers
from seqloom.studies.cluster import Task
from seqloom.studies.live_table import LiveTable
from seqloom.studies.results import Results
from seqloom.studies.runner import Workers, run
from seqloom.studies.study import Cell, Stopped
from seqloom.studies.workers import follow, last
from seqloom_studies.paper.cells import FigureCell, Paper
from seqloom_studies.paper.grid import Grid
from seqloom_studies.paper.progress import progress
from seqloom_studies.paper.scales import scale_of
from seqloom_studies.paper.studies import STUDIES
from tests.studies.cells import Square, study


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "EVERY", 0.02)


def two(out: Path, **settings: Any) -> list[FigureCell]:
    """The runs of Figure 9 at the tiny scale."""
    grid = Grid(scale_of("tiny"), out, **settings)
    (cells, _) = Paper(grid, [(STUDIES["fig9"](grid), 1)]).stages(Results(out))
    return [cell for cell in cells if isinstance(cell, FigureCell)]


@pytest.mark.slow
def test_processes_train_as_one_does(tmp_path: Path) -> None:
    cells = two(tmp_path)
    result = run(study(cells), tmp_path, Workers(jobs=2))
    assert result.failed == {}
    run(study(cells[1:]), tmp_path / "alone")
    losses = [progress(out / cells[1].name, 12).losses for out in (tmp_path, tmp_path / "alone")]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_a_signal_saves_all(tmp_path: Path) -> None:
    cells = two(tmp_path, batches=1_000_000, sets=["training.evaluate_every=0"])

    def ask() -> None:
        for cell in cells:
            while last(tmp_path / cell.name / "metrics.jsonl")[0] < 5:
                time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=ask, daemon=True).start()
    with pytest.raises(Stopped) as stopped:
        run(study(cells), tmp_path, Workers(jobs=2))
    assert stopped.value.code == 128 + signal.SIGINT
    for cell in cells:
        step = last(tmp_path / cell.name / "metrics.jsonl")[0]
        assert (tmp_path / cell.name / "checkpoints" / f"step_{step:08d}").is_dir()


@pytest.mark.slow
def test_a_cell_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    cell = two(tmp_path, batches=1_000_000)[1]
    folder = tmp_path / cell.name
    words = [sys.executable, *module_words("seqloom.studies.processes")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(pickle.dumps((cell, str(tmp_path), "")))
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
    path.write_text('{"step": 1, "loss": 5.0}\n{"step": 2, "loss": 4.0}\n{"step": 2, "held_out": 4.5}\n{"step": 3, "co')
    assert last(path) == (2, 4.0)


class Idle:
    """A worker that ends after some looks, without rows."""

    def __init__(self, looks: int) -> None:
        self.looks, self.stops = looks, 0

    def alive(self) -> bool:
        self.looks -= 1
        return self.looks > 0

    def stop(self) -> None:
        self.stops += 1

    def why(self) -> str:
        return "idle"


class Pool:
    """Starts idle workers, two at once; notes how many work."""

    most, leave = 2, False

    def __init__(self, looks: int = 3) -> None:
        self.looks, self.workers = looks, list[Idle]()
        self.working: list[int] = []

    def start(self, cells: Sequence[Cell]) -> list[Any]:
        new = [Idle(self.looks) for _ in cells]
        self.workers += new
        self.working.append(sum(worker.looks > 0 for worker in self.workers))
        return list(new)


def test_no_more_than_some_at_once(tmp_path: Path) -> None:
    cells, pool, results = [Square(str(n), n) for n in range(6)], Pool(), Results(tmp_path)
    follow(cells, pool, results, LiveTable({}))
    assert results.failed == {cell.name: "idle" for cell in cells}
    assert max(pool.working) == 2


def test_a_signal_is_sent_to_each_worker_once(tmp_path: Path) -> None:
    cells, pool, results = [Square(str(n), n) for n in range(6)], Pool(looks=6), Results(tmp_path)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    with pytest.raises(Stopped) as stopped:
        follow(cells, pool, results, LiveTable({}))
    assert stopped.value.code == 128 + signal.SIGTERM
    assert [worker.stops for worker in pool.workers] == [1, 1], "a second one would end it at once; none is started"
    assert results.failed == {}


class Started:
    """Stands in for a process; notes which GPU it may use."""

    gpus: ClassVar[list[str | None]] = []

    def __init__(self, words: Sequence[str], *, env: dict[str, str], **options: Any) -> None:
        self.stdin, self.returncode = BytesIO(), None
        self.gpus.append(env.get("CUDA_VISIBLE_DEVICES"))

    def poll(self) -> int | None:
        return self.returncode


@pytest.mark.parametrize(
    ("count", "visible", "gpus"),
    [
        (0, None, [None, None, None, None]),
        (0, "", ["", "", "", ""]),
        (2, None, ["0", "1", "0", "1"]),
        (3, "4, 6,GPU-8f", ["4", "6", "GPU-8f", "6"]),
    ],
)
def test_each_cell_has_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, visible: str | None, gpus: list[str | None]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(processes.subprocess, "Popen", Started)
    monkeypatch.setattr(Started, "gpus", [])
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    pool = processes.Processes(tmp_path, 4, "")
    first = pool.start([Square(str(number), number) for number in range(3)])
    if count == 3:
        ended: Any = first[1]
        ended._process.returncode = 0
    pool.start([Square("3", 3)])
    assert Started.gpus == gpus


class Cluster:
    """Stands in for submitit: what is asked of it, and jobs that work at once, in this process."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.submissions: list[str] = []
        self.SlurmJob = lambda folder, job_id: SimpleNamespace(job_id=job_id, done=lambda: False)

    def AutoExecutor(self, folder: Path, cluster: str) -> "Cluster":
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = {"folder": folder, "cluster": cluster}
        return self

    def update_parameters(self, **settings: Any) -> None:
        if "partition" in settings:
            raise NameError("Unknown argument 'partition'\nKnown executors: slurm, local")
        self.settings |= settings

    def map_array(self, task: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        assert os.environ[SAFE] == "1", "a job must not import from the folder where it is submitted"
        for cell, out, command in zip(*columns, strict=True):
            self.submissions.append(cell.name)
            task(cell, out, command)
        return [
            SimpleNamespace(job_id=str(at), done=lambda: True, stderr=lambda: "", state="COMPLETED")
            for at, _ in enumerate(columns[0])
        ]


@pytest.fixture
def submitit(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(cluster, "_submitit", lambda: made)
    return made


SQUARES = [Square("two", 2), Square("three", 3)]


def test_jobs_of_a_cluster(tmp_path: Path, submitit: Cluster) -> None:
    result = run(study(SQUARES), tmp_path, Workers(4, "slurm", ("slurm_partition=gpu", "timeout_min=90")))
    assert submitit.settings == {
        "folder": tmp_path / "jobs", "cluster": "slurm", "name": "seqloom", "timeout_min": 90,
        "slurm_partition": "gpu", "slurm_array_parallelism": 4,
    }  # fmt: skip
    assert submitit.submissions == list(result.rows) == ["two", "three"]
    assert json.loads((tmp_path / "jobs" / "ids.json").read_text()) == {"two": "0", "three": "1"}


@pytest.mark.parametrize(("kind", "arrays"), [("local", [2, 2, 1]), ("slurm", [5])])
def test_jobs_of_this_machine_are_limited_here_and_those_of_slurm_by_it(
    kind: str, arrays: list[int], tmp_path: Path, submitit: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    submit = submitit.map_array

    def counted(task: Callable[..., Any], cells: Sequence[Any], *columns: Sequence[Any]) -> list[Any]:
        sizes.append(len(cells))
        return submit(task, cells, *columns)

    monkeypatch.setattr(submitit, "map_array", counted)
    run(study([Square(str(n), n) for n in range(5)]), tmp_path, Workers(2, kind))
    assert sizes == arrays


def test_a_job_that_still_waits_is_not_submitted_again(tmp_path: Path, submitit: Cluster) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "ids.json").write_text(json.dumps({"two": "17_0"}))
    ended = iter([False, True, True, True])
    submitit.SlurmJob = lambda folder, job_id: SimpleNamespace(
        job_id=job_id, done=lambda: next(ended), stderr=lambda: "no such node\n", state="FAILED"
    )
    result = run(study(SQUARES), tmp_path, Workers(cluster="slurm"))
    assert submitit.submissions == ["three"]
    assert result.failed == {"two": "job 17_0 failed: no such node"}


@pytest.mark.parametrize(
    ("setting", "says"),
    [("partition=gpu", "submitit: Unknown argument 'partition' Known executors"), ("gpu", "--cluster-set needs name=")],
)
def test_settings_that_a_cluster_does_not_take(tmp_path: Path, submitit: Cluster, setting: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        run(study(SQUARES), tmp_path / "new", Workers(cluster="local", cluster_settings=(setting,)))
    assert not (tmp_path / "new").exists()


def test_a_task_that_is_stopped_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "work", lambda cell, out, command: 128 + signal.SIGTERM)
    with pytest.raises(RuntimeError, match="stopped by signal 15 and saved"):
        Task()(SQUARES[0], "out", "")
