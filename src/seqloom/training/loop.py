"""The training loop: a batch, its losses, their gradient, an update (`seqloom.training.step`).

Whatever is random is a pure function of (seed, step): the batch (`Objective.batch`) and the dropout (the generator is
seeded again at each step). So a run that was interrupted continues bit for bit as if it had not been, knowing its step
and what its objective carries from step to step.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.objective import Batch, Carried
from seqloom.training.config import TrainConfig
from seqloom.training.group import Group
from seqloom.training.losses import Losses
from seqloom.training.optimizers import Optimizer
from seqloom.training.step import Learner, Step


@final
@dataclass(frozen=True)
class Update:
    """The result of one step: loss of the batch, learning rate and times."""

    step: int
    """its number, from 1"""
    loss: float | None
    """None where a model that counts does not compute it"""
    lr: float
    seconds: float
    """seconds of the whole step, with the making of its batch"""
    compute: float
    """seconds in forward, backward and optimizer"""
    tokens: int
    """that all processes read"""
    norm: float | None = None
    """of the gradient, before it is clipped; None where there is none"""
    ended: bool = False
    """whether the model has nothing left to learn"""


class Steps(ABC):
    """The steps of a training, done one by one."""

    rate: float
    """the highest learning rate of the stage, of which the schedule gives a share"""

    @property
    def graph(self) -> str:
        """How the steps run: `none`, or `capture` where they are replayed from a graph."""
        return "none"

    @property
    def carried_state(self) -> Carried:
        """What a step passes on to the next."""
        return {}

    @abstractmethod
    def carry(self, tensors: Carried) -> None:
        """Takes up what an earlier step carried, on the model's device."""

    @abstractmethod
    def __call__(self, number: int) -> Update | None:
        """Does step `number`, counted from 0; the update that is known by then: of this step, or of the one before."""

    def wait(self) -> Update | None:
        """The update of the last step, if no call has returned it."""
        return None

    def begin_stage(self, rate: float) -> None:
        """Goes on with another highest rate, and with model and objective as they are set up now."""
        self.rate = rate


@final
class Updates(Steps):
    """Steps by gradients.

    `seed` is that of the batches. Raises NotFinite before a loss that is not finite changes a weight. A step waits for
    the device once: where the losses of its micro-batches are read. Each process of a `group` reads its rows of them.
    """

    def __init__(
        self, learner: Learner, optimizer: Optimizer, config: TrainConfig, seed: int, group: Group | None = None
    ) -> None:
        self.rate = config.lr
        self.learner = learner
        self.optimizer = optimizer
        self.config = config
        self.group = group or Group()
        self.device = next(learner.parameters()).device
        self.step = Step(learner, optimizer, config, self.group)
        self._seed = seed

    @property
    @override
    def carried_state(self) -> Carried:
        return self.step.carried

    @override
    def carry(self, tensors: Carried) -> None:
        self.step.carried = on(self.device, tensors)

    @override
    def __call__(self, number: int) -> Update:
        began = time.perf_counter()
        pieces, divisors = self.batch(number)
        parts = [on(self.device, piece) for piece in pieces]
        seed_step(self.config.seed, number, self.device)
        compute_began = time.perf_counter()
        lr = self.set_rates(number)
        (loss, norm), statistics = self.step(parts, divisors, lambda losses: self._admit_losses(losses, number))
        self.learner.model.after_update(number + 1, self.group.sum(statistics))
        ended = time.perf_counter()
        return Update(number + 1, loss, lr, ended - began, ended - compute_began, self.count_tokens(pieces), norm)

    def batch(self, number: int) -> tuple[list[Batch], list[float]]:
        """The micro-batches of a step, on the CPU, and what the mean losses of each are divided by.

        Their sum is the mean of the batch.
        """
        targets = self.learner.objective.targets
        batch = self.learner.objective.batch(self._seed, number, self.learner.model)
        parts = [self.group.rows(part) for part in micro_batches(batch, self.config.accumulate)]
        if len(parts) == 1 and self.group.size == 1:
            return parts, [1.0]
        batch_targets = targets(batch)
        return parts, [batch_targets / targets(part) for part in parts]

    def count_tokens(self, parts: list[Batch]) -> int:
        """How many tokens all processes read where this one reads these micro-batches, on the CPU."""
        return self.group.mesh.rows * sum(self.learner.objective.count_tokens(part) for part in parts)

    def set_rates(self, number: int) -> float:
        """Sets the learning rates of a step, and returns the highest."""
        config = self.config
        share = config.schedule.share(number, config.batches)
        self.optimizer.set_rates(share if self.rate == config.lr else share * self.rate / config.lr)
        return self.rate * share

    def _admit_losses(self, losses: Losses, number: int) -> tuple[float, float]:
        """The loss of the step and the norm of its gradient, of all processes. Raises NotFinite."""
        if self.carried_state and self.group.size > 1:
            raise ValueError("the objective carries tensors from step to step: train it in one process")
        return losses.read(losses.values().tolist(), number + 1, self.group)


def micro_batches(batch: Batch, pieces: int) -> list[Batch]:
    """The rows of a batch in `pieces` parts, in order."""
    chunks = {name: tensor.chunk(pieces) for name, tensor in batch.items()}
    return [{name: parts[piece] for name, parts in chunks.items()} for piece in range(pieces)]


def on(device: torch.device, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on a device."""
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Seeds torch for one step, by splitmix64 of both: torch's CPU generator reads only the low 32 bits of a seed."""
    mixed = (seed * 0x632BE59BD9B4E019 + (step + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    mixed ^= mixed >> 31
    torch.default_generator.manual_seed(mixed % 2**63)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(mixed % 2**63)
