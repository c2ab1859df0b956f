"""The kernels of a training step: a table of the longest, and the tuning of those that fla chooses variants of."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch.profiler import ProfilerActivity, profile

from seqloom.core.progress import Say, Show
from seqloom.studies.random_batches import random_updates, training_step
from seqloom.studies.study import Row
from seqloom.training.captured import chosen_steps
from seqloom_studies.gpu import peers
from seqloom_studies.gpu.card import Card
from seqloom_studies.gpu.on_card import WARM, OnCard, free_memory, step_counter
from seqloom_studies.gpu.tuning import tuning

KERNELS = 20
"""the longest kernels of a step that become rows"""


@final
class Kernel(Row):
    """The time of a kernel in one training step; of an operation of torch where there is no GPU."""

    model: str
    way: str
    kernel: str
    calls: int
    ms: float


@final
@dataclass(frozen=True, kw_only=True)
class KernelTable(OnCard):
    """The kernels of one step of each model, in one way."""

    schema: ClassVar = Kernel
    way: str

    @property
    def settings(self) -> dict[str, Any]:
        """As `OnCard`, and the way."""
        return {**super().settings, "way": self.way}

    def run(self, folder: Any, say: Say, show: Show) -> Sequence[Row]:
        """Rows of the longest kernels."""
        rows: list[Row] = []
        for name, config in self.models.items():
            step = step_counter(chosen_steps(random_updates(config.model, config.training), None, say))
            rows += _kernels(name, self.way, step, self.card)
            del step
            free_memory(self.card)
        return rows


def _kernels(model: str, way: str, step: Callable[[], object], card: Card) -> list[Kernel]:
    """The longest kernels of one step, after steps that are not counted."""
    for _ in range(WARM):
        step()
    on_gpu = card.device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as record:
        step()
        if on_gpu:
            torch.cuda.synchronize()
    rows = []
    for event in record.key_averages():
        if (event.device_type.name == "CUDA") != on_gpu:
            continue
        spent = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        rows.append(Kernel(model=model, way=way, kernel=event.key[:200], calls=event.count, ms=spent / 1e3))
    return sorted(rows, key=lambda row: -row.ms)[:KERNELS]


@final
class Tuned(Row):
    """How long the first steps of a model took, in which kernels are tuned."""

    model: str
    seconds: float


@final
@dataclass(frozen=True, kw_only=True)
class Tuning(OnCard):
    """The steps of the models once, with tuning: later steps of these sizes find the best variants of fla's kernels."""

    schema: ClassVar = Tuned
    with_peers: bool

    def run(self, folder: Any, say: Say, show: Show) -> Sequence[Row]:
        """A row for each model."""
        makers: dict[str, Callable[[], Callable[[], object]]] = {
            name: partial(training_step, config.model, config.training) for name, config in self.models.items()
        }
        if self.with_peers and not peers.unavailable():
            config = self.models["gated_delta"]
            makers["gated_delta of fla's layers"] = partial(
                peers.fla_step, config.layered_model, config.training, self.card.device
            )
        rows = []
        with tuning():
            for name, make in makers.items():
                began = time.monotonic()
                make()()
                if self.card.device == "cuda":
                    torch.cuda.synchronize()
                rows.append(Tuned(model=name, seconds=time.monotonic() - began))
                free_memory(self.card)
        return rows

    def text(self, rows: Sequence[Tuned]) -> str:
        """The times."""
        return "; ".join(f"{row.model} {row.seconds:.3g} s" for row in rows)
