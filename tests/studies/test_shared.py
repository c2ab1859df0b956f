"""Several commands with one folder: every cell once, those of a dead command again, nothing twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from seqloom.runs.lease import FREE, Lease
from seqloom.runs.lock import lock
from seqloom.studies import shared, workers
from seqloom.studies.live_table import LiveTable
from seqloom.studies.results import Results, read, save
from seqloom.studies.runner import Workers, run
from seqloom.studies.shared import Shared
from seqloom.studies.workers import follow
from tests.studies.cells import Number, Square, study
from tests.studies.sharing import begun

CELLS = [Square(str(number), number) for number in range(4)]
LIMIT = 300.0
SHARE = (
    "import sys; from pathlib import Path; from tests.studies.sharing import share; share(Path(sys.argv[1]), {}, {})"
)


class Fake:
    """Stands in for a process: it ends after some looks, with rows, or without where it is of an odd number."""

    def __init__(self, cell: Square, out: Path, looks: int) -> None:
        self.cell = cell
        self.out = out
        self.looks = looks
        self.ended: list[str] = []

    def alive(self) -> bool:
        self.looks -= 1
        if self.looks == 0 and self.cell.number % 2 == 0 and not self.ended:
            save(self.out / self.cell.name, self.cell, [Number(value=self.cell.number**2)], {})
        return self.looks > 0 and not self.ended

    def stop(self) -> None:
        self.ended.append("stopped")

    def kill(self) -> None:
        self.ended.append("killed")

    def why(self) -> str:
        return "odd"


class Fakes:
    """Stands in for the processes of a machine."""

    def __init__(self, out: Path, most: int = 2, looks: int = 3) -> None:
        self.out = out
        self.most = most
        self.looks = looks
        self.started: list[Fake] = []

    def start(self, cells: Sequence[Any]) -> list[Any]:
        new = [Fake(cell, self.out, self.looks) for cell in cells]
        self.started += new
        assert sum(fake.looks > 0 and not fake.ended for fake in self.started) <= self.most
        return new

    @property
    def names(self) -> list[str]:
        return [fake.cell.name for fake in self.started]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "EVERY", 0.001)
    monkeypatch.setattr(shared, "LOOKS", 1e6)


def pool(fakes: Any, patience: float = 60.0) -> Shared:
    return Shared(fakes.out, fakes, patience)


def test_every_cell_of_one_machine(tmp_path: Path) -> None:
    fakes, results = Fakes(tmp_path), Results(tmp_path)
    follow(CELLS, pool(fakes), results, LiveTable({}))
    assert fakes.names == ["0", "1", "2", "3"]
    assert list(results.rows) == ["0", "2"]
    assert results.failed == {"1": "odd", "3": "odd"}
    assert not list(tmp_path.glob("[02]/lease*")), "a lease of a cell that is done is removed"


def test_what_another_machine_has_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    other = Lease(tmp_path / "0" / "lease")
    assert other.take()
    fakes = Fakes(tmp_path)
    (worker, second) = pool(fakes).start([CELLS[0], CELLS[2]])
    while second.alive():
        assert worker.alive()
    assert fakes.names == ["2"]
    save(tmp_path / "0", CELLS[0], [Number(value=0)], {})
    while worker.alive():
        pass
    assert fakes.names == ["2"]


def test_what_another_machine_gave_up_is_taken(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    other = Lease(tmp_path / "0" / "lease")
    assert other.take()
    fakes = Fakes(tmp_path)
    (worker,) = pool(fakes).start([CELLS[0]])
    assert worker.alive()
    other.give_up()
    while worker.alive():
        pass
    assert fakes.names == ["0"]


def test_a_cell_whose_process_still_saves_is_not_begun(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    (worker,) = pool(fakes).start([CELLS[0]])
    with lock(tmp_path / "0"):
        for _ in range(10):
            assert worker.alive()
            time.sleep(0.001)
    assert fakes.names == []
    while worker.alive():
        pass
    assert fakes.names == ["0"]


def test_a_machine_that_stood_still_leaves_its_cell_to_the_other(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, looks=10**9)
    (worker,) = pool(fakes, patience=1e-3).start([CELLS[0]])
    assert worker.alive()
    (fake,) = fakes.started
    other = Lease(tmp_path / "0" / "lease", patience=1e-9)
    while not other.take():
        time.sleep(0.001)
    time.sleep(0.01)
    assert worker.alive(), "it waits for the other"
    assert fake.ended == ["killed"]
    save(tmp_path / "0", CELLS[0], [Number(value=0)], {})
    other.remove()
    while worker.alive():
        time.sleep(0.001)
    assert fakes.names == ["0"]


def test_stop_ends_those_that_wait_and_those_that_run(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, most=1, looks=10**9)
    running, waiting = pool(fakes).start(CELLS[:2])
    assert running.alive()
    assert waiting.alive()
    for worker in (running, waiting):
        worker.stop()
    assert not waiting.alive()
    assert not running.alive()
    assert fakes.started[0].ended == ["stopped"]
    assert Lease(tmp_path / "0" / "lease").take(), "another machine goes on with it at once"


def test_a_lease_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(lease: Lease) -> bool:
        raise OSError(28, "No space left on device", "lease-1")

    monkeypatch.setattr(Lease, "take", full)
    results = Results(tmp_path)
    follow(CELLS[:1], pool(Fakes(tmp_path)), results, LiveTable({}))
    assert results.failed == {"0": "lease-1: No space left on device"}


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--share runs cells on this machine and --cluster as jobs"):
        Workers(share=True, cluster="local")
    with pytest.raises(ValueError, match="repeat it in one command without --share"):
        run(study(CELLS), tmp_path / "out", Workers(share=True), again=["he"])
    assert not (tmp_path / "out").exists()


class Commands:
    """Starts commands, and kills at the end of a test those that are left."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, cells: int, patience: float) -> "subprocess.Popen[str]":
        words = [sys.executable, "-c", SHARE.format(cells, patience), str(self.out)]
        self.processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.processes[-1]

    def wait(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end
            assert any(process.poll() is None for process in self.processes)
            time.sleep(0.02)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    made = Commands(tmp_path)
    yield made
    for process in made.processes:
        process.kill()
        process.communicate()


def squares(process: "subprocess.Popen[str]") -> dict[str, int]:
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    result: dict[str, int] = json.loads(out)
    return result


def expected(cells: int) -> dict[str, int]:
    return {**{str(number): number**2 for number in range(cells)}, "timed": 49}


@pytest.mark.slow
def test_two_commands_run_every_cell_once(tmp_path: Path, commands: Commands) -> None:
    both = [commands.start(4, patience=60.0) for _ in range(2)]
    commands.wait(lambda: len(begun(tmp_path)) == 2)
    assert {name for name, _ in begun(tmp_path)} == {"0", "1"}, "each has one of them"
    (tmp_path / "go").touch()
    assert [squares(each) for each in both] == [expected(4)] * 2
    assert sorted(name for name, _ in begun(tmp_path)) == ["0", "1", "2", "3"]
    assert sorted((row["cell"], row["value"]) for row in read(tmp_path)) == sorted(expected(4).items())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_killed_command_loses_nothing(tmp_path: Path, commands: Commands, seed: int) -> None:
    first = commands.start(2, patience=2.0)
    commands.wait(lambda: begun(tmp_path))
    time.sleep(Random(seed).random() / 2)
    os.kill(first.pid, signal.SIGKILL)
    os.kill(begun(tmp_path)[0][1], signal.SIGKILL)
    first.communicate(timeout=LIMIT)
    (tmp_path / "go").touch()
    assert squares(commands.start(2, patience=2.0)) == expected(2)
    assert sorted(name for name, _ in begun(tmp_path)) == ["0", "0", "1"]
    assert sorted((row["cell"], row["value"]) for row in read(tmp_path)) == sorted(expected(2).items())


@pytest.mark.slow
def test_what_a_killed_worker_had_is_taken_by_another_command(tmp_path: Path, commands: Commands) -> None:
    both = [commands.start(2, patience=60.0) for _ in range(2)]
    commands.wait(lambda: len(begun(tmp_path)) == 2)
    name, process = begun(tmp_path)[0]
    os.kill(process, signal.SIGKILL)
    commands.wait(lambda: [path for path in (tmp_path / name).glob("lease-?") if path.read_bytes() == FREE])
    (tmp_path / "go").touch()
    errors = [each.communicate(timeout=LIMIT)[1] for each in both]
    assert sum(f"{name} failed: its process was killed by SIGKILL" in each for each in errors) == 1
    assert 0 in {each.returncode for each in both}, "the other has run it"
    assert sorted((row["cell"], row["value"]) for row in read(tmp_path)) == sorted(expected(2).items())
