"""torchrun starts the processes of a training again after one was killed: it ends as if nothing had happened."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from seqloom.runs.metrics import read
from tests.training.running import digests

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TRAIN = ["-m", "seqloom", "train", "tiny"]
STEPS = 60
SETTINGS = {
    "data.source": "stories:30:0",
    "training.device": "cpu",
    "training.batches": STEPS,
    "training.save_every": 7,
    "training.timeout": 60,
    "model.mixer.kind": "attention",
}
FORMS = ("static", "standalone", "two agents")
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
"""torchrun sets it where a machine has several processes, and the last bits depend on it"""
KILLED = [(form, number) for number in range(7) for form in FORMS][:20]
"""where, and with which seed, a rank is killed at a random step"""


@pytest.mark.slow
@pytest.mark.parametrize(("form", "number"), KILLED)
def test_a_killed_rank_is_started_again(whole: Path, tmp_path: Path, form: str, number: int) -> None:
    draw = random.Random(f"{form} {number}")
    folder = tmp_path / "run"
    with launched(form, folder, restarts=2) as agents:
        kill(agents, rank=draw.randrange(2), after=draw.randrange(1, STEPS - 10), rows=folder / "metrics.jsonl")
        errors = [agent.communicate(timeout=300)[1] for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(agents), errors
    assert digests(folder) == digests(whole)


@pytest.mark.slow
def test_the_last_failure_is_repeated_in_the_launchers_table(tmp_path: Path) -> None:
    with launched("standalone", tmp_path / "run", restarts=0, change="training.lr=1e30") as (agent,):
        _, error = agent.communicate(timeout=300)
    assert agent.returncode == 1, "as torchrun gives it"
    assert error.count("seqloom: stopped at step ") == 2, error


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted run of two processes."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with launched("standalone", folder, restarts=0) as (agent,):
        _, error = agent.communicate(timeout=300)
    assert agent.returncode == 0, error
    return folder


@contextmanager
def launched(form: str, folder: Path, restarts: int, change: str = "") -> Iterator[Sequence["subprocess.Popen[str]"]]:
    """torchrun's agents, two processes in all, which train into a folder."""
    changes = [f"{name}={value}" for name, value in SETTINGS.items()] + ([change] if change else [])
    program = [*TRAIN, "--out", str(folder), *(word for change in changes for word in ("--set", change))]
    port = free_port()
    node = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--local-addr", "127.0.0.1"]
    places = {
        "static": [["--nproc-per-node", "2", "--master-port", str(port)]],
        "standalone": [["--nproc-per-node", "2", "--standalone"]],
        "two agents": [[*node, "--rdzv-endpoint", f"127.0.0.1:{port}"]] * 2,
    }
    commands = [[*TORCHRUN, "--max-restarts", str(restarts), *place, *program] for place in places[form]]
    pipe = subprocess.PIPE
    agents = [
        subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=ONE_THREAD)
        for command in commands
    ]
    try:
        yield agents
    finally:
        for agent in agents:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
                agent.communicate()


def kill(agents: Sequence["subprocess.Popen[str]"], rank: int, after: int, rows: Path) -> None:
    """Kills a rank as soon as the run has the row of this step."""
    deadline = time.monotonic() + 240
    while not (rows.exists() and read(rows) and read(rows)[-1]["step"] >= after):
        assert time.monotonic() < deadline, "the training has not begun"
        assert all(agent.poll() is None for agent in agents), "the training ended before it was killed"
        time.sleep(0.005)
    children = [child for agent in agents for child in children_of(agent.pid)]
    (victim,) = [child for child in children if f"RANK={rank}".encode() in environment(child)]
    os.kill(victim, signal.SIGKILL)


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def environment(process: int) -> list[bytes]:
    return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
