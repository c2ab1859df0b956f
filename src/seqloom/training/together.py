"""Several trainings in one process, a step of each in turn: small models leave a GPU half empty.

    outcomes = train_together([resolve("tiny", [f"training.seed={seed}"]) for seed in (0, 1)], ["runs/0", "runs/1"])

Each run is what it is alone, bit for bit. On a GPU each has a stream of its own, so that steps of different runs
overlap, and random numbers of its own, since a graph reads its seed from the device while it runs. Batches, rows,
checkpoints and resuming are those of `train`.
"""

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import final

import torch

from seqloom.core.device import choose_device
from seqloom.core.progress import Advance, Say, Show, progress
from seqloom.training.config import RunConfig
from seqloom.training.group import Group
from seqloom.training.signals import Stop
from seqloom.training.train import Outcome, turns


@final
class _Lane:
    """A run among others: its turns, each on its stream of the device and with its random numbers."""

    def __init__(self, run: Generator[None, None, Outcome], device: torch.device) -> None:
        self.result: Outcome | ValueError | None = None
        self._run = run
        self._context = copy_context()
        self._device = device
        self._threads = torch.get_num_threads()
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)
            self._numbers = _generator(device).clone_state()

    def turn(self) -> None:
        """Goes on to the end of the run's next step; at its end `result` is its outcome, or the error that ended it."""
        with ExitStack() as stack:
            stack.enter_context(self._own_threads())
            if self._device.type == "cuda":
                stack.enter_context(torch.cuda.stream(self._stream))
                stack.enter_context(_numbers_of(self._device, self._numbers))
            try:
                self._context.run(next, self._run)
            except StopIteration as end:
                self.result = end.value
            except ValueError as error:
                self.result = error

    def close(self) -> None:
        """Leaves the run at its last checkpoint, unless it has ended."""
        self._context.run(self._run.close)

    @contextmanager
    def _own_threads(self) -> Iterator[None]:
        """Inside the block there are as many threads as at the end of the last one: a run may have set their number."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            self._threads = torch.get_num_threads()
            torch.set_num_threads(before)


def train_together(
    configs: Sequence[RunConfig],
    folders: Sequence[str | Path],
    *,
    allow_drift: bool = False,
    say: Say | None = None,
    show: Show = progress,
) -> list[Outcome | ValueError]:
    """Trains each of `configs` in its folder, as `train` does; of each run its outcome, or the error that ended it.

    A run that ends with an error leaves the others as they are. A signal ends all of them, each saved after its step.
    `show` shows the batches of all runs in one bar.
    """
    if len(configs) != len(folders) or len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise ValueError(f"{len(configs)} runs need as many different folders, not {len(folders)}")
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    batches = sum(config.training.batches for config in configs)
    with Stop() as stop, show("training", batches, "batches") as advance:
        lanes = [
            _Lane(
                turns(config, Path(folder), allow_drift, say, _within(advance), Group(), (), nullcontext(stop)),
                choose_device(config.training.device),
            )
            for config, folder in zip(configs, folders, strict=True)
        ]
        try:
            while left := [lane for lane in lanes if lane.result is None]:
                for lane in left:
                    lane.turn()
        finally:
            for lane in lanes:
                lane.close()
    return [lane.result for lane in lanes if lane.result is not None]


def _within(advance: Advance) -> Show:
    """A progress bar of one run that advances that of all."""

    @contextmanager
    def show(label: str, total: float, unit: str = "", *, start: float = 0) -> Iterator[Advance]:
        advance(start)
        yield advance

    return show


def _generator(device: torch.device) -> torch.Generator:
    """Torch's random numbers of a GPU."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


@contextmanager
def _numbers_of(device: torch.device, state: torch.Generator) -> Iterator[None]:
    """Inside the block a GPU's random numbers are those of `state`, which graphs that are recorded then keep."""
    generator = _generator(device)
    before = generator.graphsafe_get_state()
    generator.graphsafe_set_state(state)
    try:
        yield
    finally:
        generator.graphsafe_set_state(before)
