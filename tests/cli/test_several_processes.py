"""`seqloom train` on two processes: one of them fails or is stopped, and other commands under torchrun are errors."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher import api

from seqloom.cli import command
from tests.cli.test_processes import _waits_for

PROGRAM = [sys.executable, "-m", "seqloom", "train", "tiny", "--processes", "2"]
SETTINGS = {
    "data.source": "stories:30:0",
    "training.device": "cpu",
    "training.batches": 100_000,
    "training.save_every": 20,
    "training.timeout": 5,
    "model.mixer.kind": "attention",
}
KILLED = "seqloom: rank {} died; the same command continues from the last checkpoint"
STALLED = "seqloom: rank {} did not answer for 5 s; the same command continues"
FAILURES = {
    "rank 1 dies": (1, signal.SIGKILL, KILLED, ""),
    "rank 0 dies": (0, signal.SIGKILL, KILLED, ""),
    "rank 1 stalls": (1, signal.SIGSTOP, STALLED, ""),
    "rank 1 of a divided model dies": (1, signal.SIGKILL, KILLED, "training.shard=fsdp"),
    "rank 1 of a divided model stalls": (1, signal.SIGSTOP, STALLED, "training.shard=fsdp"),
    "rank 1 of a divided row dies": (1, signal.SIGKILL, KILLED, "training.sequence=2"),
    "rank 0 of a divided row stalls": (0, signal.SIGSTOP, STALLED, "training.sequence=2"),
}


def test_only_train_shares_its_work(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert command(["data", "stories"]) == 2
    assert "torchrun starts 2 processes, but only `seqloom train` runs in several" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "code"), [((75, 75), 75), ((75, 130), 75), ((-15, 75), 75), ((75, 2), 2), ((130, 130), 2), ((75, 1), 1)]
)
def test_the_exit_code_is_that_of_the_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, codes: tuple[int, ...], code: int
) -> None:
    failures = {rank: ProcessFailure(rank, 0, code, "") for rank, code in enumerate(codes)}

    def launched(*_: object) -> Callable[..., object]:
        raise ChildFailedError("seqloom", failures)

    monkeypatch.setattr(api, "elastic_launch", launched)
    monkeypatch.setattr(logging, "disable", lambda: None)
    changes = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    assert command(["train", "tiny", "--processes", "2", "--out", str(tmp_path / "run"), *changes]) == code


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_a_rank_that_fails_is_named_and_the_next_start_goes_on(tmp_path: Path, failure: str) -> None:
    rank, number, message, change = FAILURES[failure]
    folder = tmp_path / "run"
    with begin(folder, change) as process:
        assert _waits_for(folder / "metrics.jsonl", 30), process.communicate()
        victim, other = (of_rank(process.pid, each) for each in (rank, 1 - rank))
        began = time.monotonic()
        os.kill(victim, number)
        while alive(other):
            assert time.monotonic() - began < 35, "the other rank goes on"
            time.sleep(0.05)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith(message.format(rank))
    assert "Traceback" not in err
    with begin(folder, change) as process:
        assert _waits_for(folder / "metrics.jsonl", 60), process.communicate()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "going on after step " in err
    assert err.splitlines()[-1].startswith("stopped after step ")


def begin(folder: Path, change: str = "") -> "subprocess.Popen[str]":
    settings = [*(f"{name}={value}" for name, value in SETTINGS.items()), *([change] if change else [])]
    changes = [word for setting in settings for word in ("--set", setting)]
    pipe = subprocess.PIPE
    return subprocess.Popen([*PROGRAM, "--out", str(folder), *changes], stdout=pipe, stderr=pipe, text=True)


def of_rank(launcher: int, rank: int) -> int:
    """The process of a rank, by its environment."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    expected = f"RANK={rank}".encode()
    (actual,) = [child for child in children if expected in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")]
    return int(actual)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
