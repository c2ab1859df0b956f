"""`--minutes`: a command ends when its time is over, saved, and the same command continues."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli import command, time_limit
from seqloom.cli.over import AGAIN
from seqloom.runs.layout import Run
from seqloom.training.loop import Update, Updates
from seqloom.training.session import Session

MANY = ["--set", "training.batches=100000", "--set", "training.save_every=100000"]


@pytest.fixture
def over_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets the time be over during the step of a number, whatever the clock says."""
    compute = Updates.__call__

    def set_step(last: int) -> None:
        def step(updates: Updates, number: int) -> Update:
            if number == last:
                time_limit._interrupt()
            return compute(updates, number)

        monkeypatch.setattr(Updates, "__call__", step)

    return set_step


def steps(folder: Path) -> list[int]:
    rows = [json.loads(line) for line in Run(folder).metrics.read_text().splitlines()]
    return [row["step"] for row in rows if "loss" in row]


@pytest.mark.slow
def test_a_training_ends_saved_and_goes_on(
    tmp_path: Path, over_after: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "tiny", "--data", "stories:30", "--out", str(tmp_path / "run"), *MANY, "--minutes", "9000"]
    over_after(3)
    assert command(words) == AGAIN
    error = capsys.readouterr().err
    assert "stopped after step 4 and saved" in error
    assert "the 9000 minutes are over; the same command continues" in error
    assert steps(tmp_path / "run") == [1, 2, 3, 4]
    over_after(5)
    assert command(words) == AGAIN
    assert steps(tmp_path / "run") == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_a_command_that_ends_in_time_is_as_without_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "tiny", "--data", "stories:30", "--out", str(tmp_path), "--set", "training.batches=2"]
    assert command([*words, "--minutes", "9000"]) == 0
    assert "are over" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_time_without_one_step_is_an_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "tiny", "--data", "stories:30", "--out", str(tmp_path / "run"), *MANY]
    train = Session.train

    def late(session: Session, *arguments: Any) -> Iterator[None]:
        time_limit._interrupt()
        yield from train(session, *arguments)

    monkeypatch.setattr(Session, "train", late)
    assert command([*words, "--minutes", "9000"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("seqloom: ")]
    assert "--minutes ended before one step was done: allow more; nothing is lost" in line


@pytest.mark.slow
def test_a_study_ends_between_its_steps(
    tmp_path: Path, over_after: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["study", "recall", "attention:heads=2", "--probe", "mqar", "--dim", "16", "--batches", "1000"]
    over_after(2)
    assert command([*words, "--out", str(tmp_path / "recall"), "--minutes", "9000"]) == AGAIN
    assert "the 9000 minutes are over" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_minutes_are_a_number_above_0(minutes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["train", "tiny", "--out", str(tmp_path / "run"), f"--minutes={minutes}"]) == 2
    assert "--minutes must be a number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("over", [True, False])
def test_an_end_during_an_import_has_the_exit_code_of_its_reason(over: bool, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('went on')")
    program = (
        f"import sys, seqloom.cli as cli; sys.path.append({str(tmp_path)!r})\n"
        "from seqloom.cli.over import OVER\n"
        f"def command(*_): {over} and OVER.set(); import slow\n"
        "cli.command = command; cli.run()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == (AGAIN if over else 130)
    assert ended.stderr.splitlines() == ["the minutes are over; the same command continues" if over else "stopped"]
    assert ended.stdout == ""


def test_more_minutes_than_a_timer_takes_are_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    def work() -> int:
        timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
        for timer in timers:
            timer.join(0.05)  # one that takes no such time ends at once
        return len([timer for timer in timers if timer.is_alive()])

    assert time_limit.limited_to(1e300, work) == 1
    assert not failures


def test_ctrl_c_before_the_time_is_over_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_limit.limited_to(10, interrupted)
    assert time_limit.limited_to(10, lambda: 130) == 130
