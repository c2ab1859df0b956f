"""A tiny run on several processes, one of which may meet a fault; how each of them ended."""

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
import torch.distributed as dist

from seqloom.runs import steps
from tests.training.running import tiny

LIMIT = 150.0
"""seconds after which processes that have not ended count as hung"""
Arm = Callable[[], None]
_server = multiprocessing.get_context("forkserver")


@final
@dataclass(frozen=True)
class Ends:
    """How the processes of a run ended, by rank."""

    codes: list[int | None]
    """exit codes; minus the signal of one that was killed; None for one that hung"""
    messages: list[str]
    """of the error that ended it; what a traceback shows begins with `Traceback`"""
    said: list[str]
    """the lines of rank 0"""

    @property
    def reason(self) -> str:
        """The message that a terminal would show."""
        return next((message for message in self.messages if message), "")


def launch(
    folder: Path,
    ranks: int,
    changes: tuple[str, ...],
    arms: dict[int, Arm] | None = None,
    more: dict[int, tuple[str, ...]] | None = None,
) -> Ends:
    """Trains in a folder on so many processes; each of `arms` prepares a fault of its rank, `more` has its settings."""
    notes = folder.with_name(f"{folder.name}-notes")
    notes.mkdir(parents=True, exist_ok=True)
    for path in notes.glob("end-*"):
        path.unlink()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    cache = os.environ["SEQLOOM_CACHE"]
    processes: list[Any] = []
    for rank in range(ranks):
        arm, own = (arms or {}).get(rank), (*changes, *(more or {}).get(rank, ()))
        values = (folder, notes, ranks, rank, own, arm, store.port, cache)
        processes.append(_server.Process(target=_train, args=values))
        processes[-1].start()
    codes = _wait(processes)
    messages = [_read(notes / f"end-{rank}") for rank in range(ranks)]
    return Ends(codes, messages, _read(notes / "end-said").splitlines())


def saved_steps(folder: Path) -> list[int]:
    """The steps whose save had ended, in any of the launches of this folder."""
    return [int(line) for line in _read(folder.with_name(f"{folder.name}-notes") / "saved").split()]


def _wait(processes: list[Any]) -> list[int | None]:
    """The exit code of each process. One that is stopped is killed when the others have ended."""
    deadline = time.monotonic() + LIMIT
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        if all(not process.is_alive() or _is_stopped(process.pid) for process in processes):
            break
        time.sleep(0.05)
    codes = [None if process.is_alive() and not _is_stopped(process.pid) else process.exitcode for process in processes]
    stopped = [process.is_alive() and _is_stopped(process.pid) for process in processes]
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()
    return [-signal.SIGSTOP if is_stopped else code for code, is_stopped in zip(codes, stopped, strict=True)]


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def _train(
    folder: Path, notes: Path, ranks: int, rank: int, changes: tuple[str, ...], arm: Arm | None, port: int, cache: str
) -> None:
    signal.alarm(int(LIMIT))  # a process that hangs ends by itself
    torch.set_num_threads(1)
    os.environ["SEQLOOM_CACHE"] = cache
    if ranks > 1:
        here = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in here.items()})
        os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    said: list[str] = []
    message, code = "", 0
    if rank == 0:
        _note_saves(notes / "saved")
    if arm is not None:
        arm()
    try:
        outcome = tiny(folder, *changes, say=said.append)
        code = 0 if outcome.asked is None else 128 + outcome.asked
    except (ValueError, OSError) as error:
        message, code = str(error), 2
    except BaseException:
        message, code = traceback.format_exc(), 1
    _note(notes / f"end-{rank}", message)
    if rank == 0:
        _note(notes / "end-said", "\n".join(said))
    os._exit(code)


def _note_saves(path: Path) -> None:
    """Appends each step to a file when its checkpoint has its name."""
    put, write, opened = steps.put, os.write, os.open

    def noted(temporary: Path, target: Path) -> None:
        put(temporary, target)
        write(opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), f"{steps.step_of(target)}\n".encode())

    steps.put = noted


def _note(path: Path, text: str) -> None:
    with open(path, "w") as file:  # not counted by `arming`
        file.write(text)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
