"""Checkpoints in the background and in parts: the same bits, one at a time, a failure named at the next step."""

import errno
import os
import resource
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from seqloom.runs import checkpoint
from seqloom.runs.metrics import Metrics
from seqloom.runs.model import load
from seqloom.training.settings import resolve
from tests.training.running import mixer, newest, rows, same, saved, tiny
from tests.training.test_sharding import assert_close
from tests.training.together import Job, run, together

SHARD = "training.shard=fsdp"
ASYNC = "training.save=async"
DOUBLE = ("training.precision=float64", mixer("attention"), "training.batch=6", "training.batches=6")
OFTEN = "training.save_every=2"


@pytest.fixture
def whole_save(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Puts a function in front of `checkpoint.save`, which is then called."""
    save = checkpoint.save

    def watch(before: Callable[..., Any]) -> None:
        def watched(*values: Any) -> Path:
            before(*values)
            return save(*values)

        monkeypatch.setattr(checkpoint, "save", watched)

    return watch


@pytest.fixture
def at_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], None]], None]:
    """Calls a function with the step of each row, after the row."""
    append = Metrics.append

    def watch(call: Callable[[int], None]) -> None:
        def appended(metrics: Metrics, row: dict[str, Any]) -> None:
            append(metrics, row)
            call(row["step"])

        monkeypatch.setattr(Metrics, "append", appended)

    return watch


def test_a_save_in_the_background_has_the_same_bits(tmp_path: Path) -> None:
    tiny(tmp_path / "sync", say=lambda line: None)
    tiny(tmp_path / "async", ASYNC, say=lambda line: None)
    same(tmp_path / "async", tmp_path / "sync")
    assert saved(tmp_path / "async") == saved(tmp_path / "sync")


def test_the_training_goes_on_while_a_save_waits(tmp_path: Path, whole_save: Any, at_rows: Any) -> None:
    """The first save is let go by the fifth training step."""
    fifth = threading.Event()

    def let_go(step: int) -> None:
        if step == 5:
            assert not saved(tmp_path)
            fifth.set()

    whole_save(lambda folder, step, *rest: fifth.wait(60) if step == 3 else None)
    at_rows(let_go)
    tiny(tmp_path, ASYNC, "training.evaluate_every=0", say=lambda line: None)
    assert fifth.is_set()
    assert saved(tmp_path) == [6, 9]


def test_a_failure_is_named_at_the_next_step(tmp_path: Path, whole_save: Any, at_rows: Any) -> None:
    def refuse(folder: Path, step: int, *rest: object) -> None:
        if step == 6:
            raise OSError(errno.ENOSPC, f"cannot save step 6 in {folder}: No space left on device")

    def finish_save(step: int) -> None:
        if step == 7:
            for thread in threading.enumerate():
                if thread.daemon and thread.name.startswith("Thread-"):
                    thread.join(60)

    whole_save(refuse)
    at_rows(finish_save)
    with pytest.raises(OSError, match="cannot save step 6 in"):
        tiny(tmp_path, ASYNC, "training.evaluate_every=0", say=lambda line: None)
    assert saved(tmp_path) == [3]
    assert rows(tmp_path)[-1]["step"] <= 7, "it did not go on to the next save"


def test_the_last_save_is_waited_for(tmp_path: Path, whole_save: Any) -> None:
    def refuse(folder: Path, step: int, *rest: object) -> None:
        if step == 9:
            raise OSError(errno.EIO, "Input/output error")

    whole_save(refuse)
    with pytest.raises(OSError, match="Input/output error"):
        tiny(tmp_path, ASYNC, "training.evaluate_every=0", say=lambda line: None)
    assert saved(tmp_path) == [3, 6]


def test_a_save_in_flight_is_finished_when_the_training_fails(tmp_path: Path, whole_save: Any) -> None:
    started: list[int] = []
    whole_save(lambda folder, step, *rest: started.append(step))
    with pytest.raises(KeyboardInterrupt):
        tiny(tmp_path, ASYNC, say=lambda line: None, show=_interrupt_at_4)
    assert started == [3]
    assert saved(tmp_path) == [3]


class _interrupt_at_4:
    """A progress bar that is interrupted at the fourth step."""

    def __init__(self, *values: object, **named: object) -> None:
        self.steps = 0

    def __enter__(self) -> Callable[..., None]:
        return self.advance

    def __exit__(self, *error: object) -> None:
        pass

    def advance(self, steps: float = 1, note: str = "") -> None:
        self.steps += 1
        if self.steps == 4:
            raise KeyboardInterrupt


def limited(job: Job, rank: int) -> Job:
    """A job in which the system refuses one rank's writes beyond 2,000 bytes."""
    return partial(_limited, job, rank)


def _limited(job: Job, rank: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if int(os.environ["RANK"]) == rank:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        job()
    except OSError as error:
        raise ValueError(str(error)) from None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[str]]]:
    """All jobs of two processes, in one pair of them."""
    folder = tmp_path_factory.mktemp("together")
    jobs: list[Job] = [
        run(folder / "sync", *DOUBLE, SHARD, OFTEN),
        run(folder / "async", *DOUBLE, SHARD, OFTEN, ASYNC),
        run(folder / "undivided", *DOUBLE, OFTEN, ASYNC),
        run(folder / "full", *DOUBLE, SHARD, OFTEN, "training.batches=2"),
        limited(run(folder / "full", *DOUBLE, SHARD, OFTEN, ASYNC), rank=1),
    ]
    return folder, together(jobs, folder / "messages")


Trained = tuple[Path, list[list[str]]]


def test_two_processes_save_the_same_in_the_background(trained: Trained) -> None:
    folder, messages = trained
    assert messages[:4] == [["", ""]] * 4
    same(folder / "async", folder / "sync")
    assert_close(folder / "undivided", folder / "sync")
    names = {path.name for path in (folder / "async" / "checkpoints" / "step_00000006").iterdir()}
    shards = {f"shard-0000{rank}-model-00001-of-00001.safetensors" for rank in (1, 2)}
    assert names == {"manifest.json", "meta.json", *shards}
    assert "model.safetensors" in {path.name for path in (folder / "undivided" / "checkpoints").glob("*/*")}


def test_a_full_disk_of_one_rank_is_named_by_all(trained: Trained) -> None:
    folder, messages = trained
    first, second = messages[4]
    assert "cannot save step 4 in" in first
    assert "File too large (rank 1); the earlier checkpoints are untouched" in first
    assert second == "another rank has the message"
    assert saved(folder / "full")[-1] == 2
    assert newest(folder / "full").step == 2
    assert not list(folder.glob("full/checkpoints/*tmp*"))


def test_one_process_reads_what_two_have_written(trained: Trained) -> None:
    model, found = load(trained[0] / "async")
    weights = newest(trained[0] / "async").tensors["model"]
    assert found.folder == trained[0] / "async"
    assert all(weights[name].equal(tensor) for name, tensor in model.state_dict().items())


@pytest.mark.slow
def test_two_three_one_and_two_processes(trained: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "chain"
    for number, (processes, batches) in enumerate([(2, 2), (3, 3), (1, 4), (2, 6)]):
        changes = (*DOUBLE, SHARD, ASYNC, OFTEN, f"training.batches={batches}")
        if processes == 1:
            tiny(folder, *changes, say=lambda line: None)
        else:
            messages = together([run(folder, *changes)], tmp_path / f"messages-{number}", processes)
            assert messages == [[""] * processes]
        assert newest(folder).step == batches
    assert_close(folder, trained[0] / "sync")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tied", "muon", "hybrid", "universal"])
def test_of_other_models(tmp_path: Path, name: str) -> None:
    """Weights under two names, the other optimizer, copies on several machines, a layer that is applied many times."""
    changes = {
        "tied": (mixer("he"), "model.tie=true"),
        "muon": (mixer("attention"), "training.optimizer=muon"),
        "hybrid": (mixer("attention"),),
        "universal": ("model.kind=universal", mixer("attention")),
    }[name]
    settings = (
        "training.precision=float64",
        "training.batches=4",
        f"training.shard={'hybrid' if name == 'hybrid' else 'fsdp'}",
    )
    jobs = [
        run(tmp_path / "whole", *changes, *settings),
        run(tmp_path / "cut", *changes, *settings, ASYNC, "training.batches=2"),
        run(tmp_path / "cut", *changes, *settings),
    ]
    if name == "hybrid":
        jobs = [partial(_of_two_machines, job) for job in jobs]
    assert together(jobs, tmp_path / "messages") == [["", ""]] * 3
    assert_close(tmp_path / "cut", tmp_path / "whole")


def _of_two_machines(job: Job) -> None:
    os.environ["LOCAL_WORLD_SIZE"] = "1"
    job()


def test_it_changes_no_identity() -> None:
    plain, background = resolve("tiny", []), resolve("tiny", [ASYNC])
    assert "save" not in plain.model_dump(mode="json")["training"]
    assert plain.identity("") == background.identity("")
