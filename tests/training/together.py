"""Several processes that train together, as torchrun starts them, for many jobs in sequence."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from seqloom.training.distributed import join_group
from seqloom.training.loop import Updates
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from seqloom.training.stretches import InStretches
from tests.training.running import tiny
from tests.training.stepping import CONTEXT, descent, noise

Job = Callable[[], Any]
_server = multiprocessing.get_context("forkserver")


def together(jobs: Sequence[Job], folder: Path, size: int = 2) -> list[list[str]]:
    """Runs the jobs in `size` processes; the message of each job's error in each rank, empty without one."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    folder.mkdir(parents=True, exist_ok=True)
    cache = os.environ["SEQLOOM_CACHE"]
    ranks = [_server.Process(target=_work, args=(jobs, folder, rank, size, store.port, cache)) for rank in range(size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(300)
        assert process.exitcode == 0, f"a process ended with {process.exitcode}"
    return [[(folder / f"{number}-{rank}").read_text() for rank in range(size)] for number in range(len(jobs))]


def run(folder: Path, *changes: str, only: dict[int, tuple[str, ...]] | None = None) -> Job:
    """A tiny run; `only` gives some ranks further changes."""
    return partial(_run, folder, changes, only or {})


def steps(path: Path, model: Callable[[], Any], *changes: str) -> Job:
    """Three steps of plain gradient descent of a model; rank 0 saves its parameters and buffers."""
    return partial(three_steps, path, model, *changes)


def three_steps(path: Path, make: Callable[[], Any], *changes: str) -> None:
    config = resolve("tiny", changes).training
    model = make()
    learner = Learner(model, NextToken(noise(), CONTEXT, config.batch))
    with join_group(config) as group:
        if config.sequence > 1:
            learner.read_by(InStretches(model, group))
        update = Updates(learner, descent(model, 0.1), config, 0, group)
        losses = [update(step).loss for step in range(3)]
        if group.main:
            torch.save({"weights": model.state_dict(), "losses": losses}, path)


def _run(folder: Path, changes: tuple[str, ...], only: dict[int, tuple[str, ...]]) -> None:
    tiny(folder, *changes, *only.get(int(os.environ.get("RANK", 0)), ()), say=lambda line: None)


def _work(jobs: Sequence[Job], folder: Path, rank: int, size: int, port: int, cache: str) -> None:
    signal.alarm(300)
    torch.set_num_threads(1)
    here = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in here.items()})
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0", "SEQLOOM_CACHE": cache}
    for number, job in enumerate(jobs):
        try:
            job()
            message = ""
        except ValueError as error:
            message = str(error) or "another rank has the message"
        (folder / f"{number}-{rank}").write_text(message)
    os._exit(0)
