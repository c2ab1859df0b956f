"""Training steps as a CUDA graph: a step is recorded once and replayed, so that the host launches it as a whole.

    warm up → undo → record the step;  then at each step   fill the buffers, set the rates, seed, replay

What is recorded is the function that runs uncaptured (`seqloom.training.step`), so that losses and weights are the same
bits, those of dropout included: the default generator is seeded before each replay. A graph reads from and writes to
the memory that it was recorded with. So batches are copied into buffers, learning rates are numbers on the device, and
a checkpoint is loaded before anything is recorded. The next batch is made in a thread (`seqloom.training.prefetch`).

The host does not wait for a step: it reads its losses while the next one runs. A loss that is not finite sets a flag on
the device, with which no later update changes a weight; so the weights are those before that step when the host stops
the training, and names it. A model that changes buffers after an update (`after_update`) does so outside of the graph;
its losses are read at once.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.objective import Batch, Carried
from seqloom.core.progress import Say
from seqloom.core.recording import Recorded, fill, reason, record, takes_graphs, warm_up
from seqloom.training.capturable import changes_afterwards, why_uncaptured
from seqloom.training.loop import Steps, Update, Updates, seed_step
from seqloom.training.losses import Losses
from seqloom.training.prefetch import Prefetch


@final
@dataclass(frozen=True)
class _Recording:
    """A step as a graph, with the memory that it reads and writes."""

    work: Recorded[tuple[tuple[Losses, Tensor], dict[str, Tensor]]]
    buffers: list[Batch]
    divisors: list[float]

    @property
    def losses(self) -> Losses:
        """Those of the step, which its values are read by."""
        return self.work.result[0][0]

    @property
    def values(self) -> Tensor:
        """Of the losses and of the gradient's norm (n,), float64."""
        return self.work.result[0][1]

    @property
    def statistics(self) -> dict[str, Tensor]:
        """The sums of the model's statistics."""
        return self.work.result[1]


@final
@dataclass(frozen=True)
class _Running:
    """A step that the device does, or did."""

    step: int
    lr: float
    values: Tensor
    """of the losses and of the gradient's norm, on the CPU once `ended` is reached"""
    tokens: int
    began: torch.cuda.Event
    ended: torch.cuda.Event


@final
class Captured(Steps):
    """The steps of `updates` as a graph. Where the recording fails, they go on uncaptured, and `say` says so."""

    def __init__(self, updates: Updates, say: Say) -> None:
        self.rate = updates.rate
        self._updates = updates
        self._say = say
        self._flag = torch.zeros((), dtype=torch.float32, device=updates.device)
        """1 from the first loss on that is not finite"""
        self._batches = Prefetch(partial(_pin_batch, updates), updates.config.batches)
        self._reads_at_once = changes_afterwards(updates.learner.model)
        self._recording: _Recording | None = None
        self._failed = False
        self._running: _Running | None = None
        self._since = 0.0
        """when the host had nothing left to wait for"""

    @property
    @override
    def graph(self) -> str:
        return "none" if self._failed else "capture"

    @override
    def carry(self, tensors: Carried) -> None:
        assert not tensors, "an objective that carries tensors is not captured"

    @override
    def begin_stage(self, rate: float) -> None:
        assert self._running is None, "the last step of a stage is waited for"
        super().begin_stage(rate)
        self._updates.begin_stage(rate)
        self._batches.drop()
        self._recording = None

    @override
    def __call__(self, number: int) -> Update | None:
        if self._recording is None and not self._failed:
            self._recording = self._record_or_say_why_not(number)
        if self._recording is None:
            return self._updates(number)
        earlier, began = self._running, time.perf_counter()
        if earlier is None:
            self._since = began
        self._running = self._start(self._recording, number)
        if self._reads_at_once:
            update = self.wait()
            self._updates.learner.model.after_update(number + 1, self._recording.statistics)
            return update
        return None if earlier is None else self._read(earlier)

    @override
    def wait(self) -> Update | None:
        running, self._running = self._running, None
        return None if running is None else self._read(running)

    def _start(self, recording: _Recording, number: int) -> _Running:
        """Gives the device all of a step, without waiting for it."""
        parts, divisors = self._batches.take(number)
        assert divisors == recording.divisors, "an objective with other targets at each step is not captured"
        values = torch.empty_like(recording.values, device="cpu", pin_memory=recording.values.is_cuda)
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        _fill(recording.buffers, parts)
        lr = self._updates.set_rates(number)
        seed_step(self._updates.config.seed, number, self._updates.device)
        began.record()
        recording.work.replay()
        values.copy_(recording.values, non_blocking=True)
        ended.record()
        return _Running(number + 1, lr, values, self._updates.count_tokens(parts), began, ended)

    def _read(self, running: _Running) -> Update:
        """The update of a step, once it is done. Raises NotFinite, which names it."""
        assert self._recording is not None
        running.ended.synchronize()
        loss, norm = self._recording.losses.read(running.values.tolist(), running.step, self._updates.group)
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        compute = running.began.elapsed_time(running.ended) / 1000
        return Update(running.step, loss, running.lr, seconds, min(compute, seconds), running.tokens, norm)

    def _record_or_say_why_not(self, number: int) -> _Recording | None:
        """The step as a graph; None where it cannot be recorded, and then nothing has changed."""
        optimizer = self._updates.optimizer
        try:
            with torch.cuda.device(self._updates.device), torch.cuda.stream(torch.cuda.current_stream()):
                return self._record(number)
        except RuntimeError as error:
            self._failed = True
            optimizer.zero_grad()
            optimizer.guard(None)
            optimizer.let_capture(False)
            self._say(f"training steps go on uncaptured, since the capture failed: {reason(error)}")
            return None

    def _record(self, number: int) -> _Recording:
        """Records the step on memory of the shapes of this step's batch, and changes no weight."""
        updates = self._updates
        parts, divisors = updates.batch(number)
        buffers = [{name: torch.empty_like(x, device=updates.device) for name, x in part.items()} for part in parts]
        _fill(buffers, parts)
        updates.set_rates(number)
        updates.optimizer.guard(self._flag)

        def step() -> tuple[tuple[Losses, Tensor], dict[str, Tensor]]:
            return updates.step(buffers, divisors, self._raise_flag)

        with self._undo_changes():
            warm_up(step)
        updates.optimizer.let_capture(True)
        return _Recording(record(step), buffers, divisors)

    def _raise_flag(self, losses: Losses) -> tuple[Losses, Tensor]:
        """The losses and their values (n,); sets the flag where one is not finite."""
        values = losses.values()
        wrong = values.isfinite().all().logical_not()
        self._flag.copy_(torch.maximum(self._flag, wrong.to(self._flag.dtype)))
        return losses, values

    @contextmanager
    def _undo_changes(self) -> Iterator[None]:
        """Whatever the block changes of model, objective, optimizer and flag is as before after it, in its place."""
        learner, optimizer = self._updates.learner, self._updates.optimizer
        held: list[Tensor] = [*learner.parameters(), *learner.buffers()]
        before = [tensor.detach().clone() for tensor in held]
        memory = {name: tensor.clone() for name, tensor in optimizer.tensors().items()}
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in zip(held, before, strict=True):
                    tensor.copy_(value)
                for name, tensor in optimizer.tensors().items():  # what was not there is as new
                    tensor.copy_(memory.get(name, torch.zeros_like(tensor)))
                self._flag.zero_()


def _pin_batch(updates: Updates, number: int) -> tuple[list[Batch], list[float]]:
    """The batch of a step (`Updates.batch`), where a GPU copies it without making the host wait."""
    parts, divisors = updates.batch(number)
    if updates.device.type == "cuda":
        parts = [{name: tensor.pin_memory() for name, tensor in part.items()} for part in parts]
    return parts, divisors


def _fill(buffers: list[Batch], parts: list[Batch]) -> None:
    """Copies micro-batches into the buffers, without waiting where they are pinned."""
    for buffer, part in zip(buffers, parts, strict=True):
        fill((buffer[name] for name in part), part.values())


def chosen_steps(updates: Updates, earlier: str | None, say: Say) -> Steps:
    """The steps as they run on their device: `updates` themselves, or captured; `say` says which on a GPU.

    `earlier` is the `graph` of the run so far, in which it goes on; None where it begins.
    """
    if not takes_graphs(updates.device) or updates.config.graph == "none":
        return updates
    why = why_uncaptured(updates) or ("as before" if earlier == "none" else "")
    if why:
        say(f"training steps run uncaptured: {why}")
        return updates
    say("each training step is replayed from a CUDA graph")
    return Captured(updates, say)
