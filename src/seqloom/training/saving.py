"""The checkpoints of a training: saved before the next step, or in the background of the steps that follow.

    sync    the training waits until a checkpoint is on the disk
    async   it waits until a copy is on the CPU, which a thread writes; at most one save is in flight

A model that is divided among processes is saved by all of them (`seqloom.runs.shards`), another one by rank 0. A save
that fails raises in every rank after the same step, because the ranks tell each other how theirs are.
"""

import os
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Self, final

import torch.distributed as dist
from torch import Tensor

from seqloom.core.divided import any_divided
from seqloom.runs import checkpoint, steps
from seqloom.runs.layout import Run
from seqloom.training.config import TrainConfig
from seqloom.training.failures import Lost
from seqloom.training.group import SIGNALLED, Group

Named = Mapping[str, Mapping[str, Tensor]]
"""tensors by group and name"""
POLL = 0.01
"""seconds between looks at a save that is waited for"""


@final
class Saver:
    """Saves the checkpoints of a run; as a context, until the last one is on the disk."""

    def __init__(self, run: Run, group: Group, config: TrainConfig) -> None:
        self._run = run
        self._group = group
        self._background = config.save == "async"
        self._in_flight = False
        """whether some rank may still be writing: the same in all"""
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._parts: tuple[dist.ProcessGroup, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.wait()
        elif self._thread is not None:  # nothing is sent: the other ranks may be anywhere
            self._thread.join(SIGNALLED if issubclass(kind, Lost) else None)

    def save(self, step: int, tensors: Named, meta: Mapping[str, Any], best: int | None) -> None:
        """Saves a step, and drops all checkpoints but the last two and that of the step `best`; every rank calls it.

        Waits for the save before, and raises its failure. `meta` is rank 0's.
        """
        self.wait()
        if any_divided(tensors["model"].values()):
            self._begin(self._save_parts(step, tensors, meta, best))
        elif self._background:
            self._begin(self._save_whole(step, _copy(tensors), meta, best) if self._group.main else None)
        elif self._group.main:
            self._save_whole(step, tensors, meta, best)()
        if not self._background:
            self.wait()

    def poll(self) -> None:
        """Raises the failure of the save that is in flight, if it has failed in this rank; Lost, if in another one."""
        if not self._in_flight:
            return
        writing = self._thread is not None and self._thread.is_alive()
        failed = not writing and self._failure is not None
        states = self._group.gather([float(writing), float(failed)])
        if any(failed for _, failed in states):
            self._in_flight = False
            raise (self._failure if failed and self._failure is not None else Lost())
        self._in_flight = any(writing for writing, _ in states)

    def wait(self) -> None:
        """Waits until no save is in flight. Raises as `poll`."""
        while self._in_flight:
            if self._thread is not None:
                self._thread.join(POLL)
            self.poll()

    def _begin(self, write: Callable[[], None] | None) -> None:
        """Lets a thread write, which does not outlive the process; without `write` only the other ranks do."""
        self._failure = None
        self._in_flight = True
        self._thread = None if write is None else threading.Thread(target=self._work, args=(write,), daemon=True)
        if self._thread is not None:
            self._thread.start()

    def _work(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:
            self._failure = error

    def _save_whole(self, step: int, tensors: Named, meta: Mapping[str, Any], best: int | None) -> Callable[[], None]:
        """The save of a model that rank 0 has."""

        def write() -> None:
            checkpoint.save(self._run.checkpoints, step, tensors, meta)
            checkpoint.prune(self._run.checkpoints, keep_last=2, best=best)

        return write

    def _save_parts(self, step: int, tensors: Named, meta: Mapping[str, Any], best: int | None) -> Callable[[], None]:
        """The save of a model of which this process has a part."""
        from seqloom.runs import shards  # which imports torch's distributed checkpoints

        folder = self._run.checkpoints
        group, writer = self._own_group()
        parts = shards.Parts(tensors, copy=self._background)

        def write() -> None:
            if not self._group.main:
                shards.write(folder / steps.temporary_name(step, writer), step, parts, meta, group)
                return
            with checkpoint.new_step(folder, step) as temporary:
                shards.write(temporary, step, parts, meta, group)
            checkpoint.prune(folder, keep_last=2, best=best)

        return write

    def _own_group(self) -> tuple[dist.ProcessGroup, int]:
        """A group of all ranks for saves alone, which do not mix with a step's sums; and the process of rank 0."""
        if self._parts is None:
            group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self._group.timeout))
            self._parts = group, self._group.of_main(os.getpid)
        return self._parts


def _copy(tensors: Named) -> dict[str, dict[str, Tensor]]:
    """The tensors as they are now, on the CPU."""
    return {
        group: {name: tensor.detach().to("cpu", copy=True) for name, tensor in named.items()}
        for group, named in tensors.items()
    }
