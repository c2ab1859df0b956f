"""The training loop: a batch, its losses, their gradient, an update.

    loss = Σ_p (n_p / n) Σ_name losses_p[name]          p: micro-batches with n_p of the batch's n targets

Whatever is random is a pure function of (seed, step): the batch (`Objective.batch`) and the dropout (the generator is
seeded again at each step). So a run that was interrupted continues bit for bit as if it had not been, knowing its step
and what its objective carries from step to step.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.extras import added
from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.core.objective import Batch, Carried, Objective, Pass
from seqloom.training.config import TrainConfig
from seqloom.training.group import Group
from seqloom.training.optimizers import Optimizer


@final
class Learner(nn.Module):
    """A model and its objective as one module, which is called, compiled and optimized: the losses of some rows."""

    def __init__(self, model: Any, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    @override
    def forward(self, batch: Batch, carried: Carried) -> Pass:
        return self.objective.losses(self.model, batch, carried)


@final
@dataclass(frozen=True)
class Update:
    """The result of one step: loss of the batch, learning rate and times."""

    loss: float | None
    """None where a model that counts does not compute it"""
    lr: float
    seconds: float
    """seconds of the whole step, with the making of its batch"""
    compute: float
    """seconds in forward, backward and optimizer"""
    ended: bool = False
    """whether the model has nothing left to learn"""


class NotFinite(ValueError):
    """A loss or a weight became NaN or infinite; the message names the step."""


@final
class Losses:
    """The losses of a step's micro-batches, held on the device and read from it together."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._divisors: list[float | None] = []
        self._values: list[Tensor] = []

    def add(self, name: str, value: Tensor, divisor: float | None = None) -> None:
        """Takes in a scalar, without its gradient; with a divisor it is part of the loss of the step."""
        self._names.append(name)
        self._divisors.append(divisor)
        self._values.append(value.detach().double())

    def read(self, step: int, group: Group) -> float:
        """The loss of the step, of all processes. Raises NotFinite, which names the first loss that is not finite."""
        values = torch.stack(self._values).tolist()
        shares = [value / (divisor or 1.0) for value, divisor in zip(values, self._divisors, strict=True)]
        total = 0.0
        for rank_shares in group.gather(shares):
            for name, share, divisor in zip(self._names, rank_shares, self._divisors, strict=True):
                if not math.isfinite(share):
                    raise NotFinite(_stopped(step, f"{name} is {share}"))
                if divisor is not None:
                    total += share
        return total


def clipped_together(module: nn.Module) -> list[list[nn.Parameter]]:
    """Lists of parameters, each clipped by the norm of its gradients: most of them, and those that mixers set apart."""
    apart = {id(parameter) for part in module.modules() if isinstance(part, Mixer) for parameter in part.clipped_apart}
    most = [parameter for parameter in module.parameters() if id(parameter) not in apart]
    set_apart = [parameter for parameter in module.parameters() if id(parameter) in apart]
    return [parameters for parameters in (most, set_apart) if parameters]


@final
class Updates:
    """The steps of a training; `carried` is what a step passes on to the next.

    `seed` is that of the batches. Raises NotFinite before a loss that is not finite changes a weight. A step waits for
    the device once: where the losses of its micro-batches are read. Each process of a `group` reads its rows of them.
    """

    def __init__(
        self, learner: Learner, optimizer: Optimizer, config: TrainConfig, seed: int, group: Group | None = None
    ) -> None:
        self.carried: Carried = {}
        self.rate = config.lr
        """the highest learning rate of the stage, of which the schedule gives a share"""
        self._group = group or Group()
        self._learner = learner
        self._optimizer = optimizer
        self._config = config
        self._seed = seed
        self._device = next(learner.parameters()).device
        self._clipped = clipped_together(learner)
        self._run: Callable[..., Any] = torch.compile(learner) if config.compile else learner

    def carry(self, tensors: Carried) -> None:
        """Takes up what an earlier step carried, on the model's device."""
        self.carried = on(self._device, tensors)

    def __call__(self, number: int) -> Update:
        """Does step `number`, counted from 0."""
        config = self._config
        began = time.perf_counter()
        batch = self._learner.objective.batch(self._seed, number, self._learner.model)
        parts = [self._group.rows(part) for part in micro_batches(batch, config.accumulate)]
        divisors = self._divisors(batch, parts)
        parts = [on(self._device, part) for part in parts]
        seed_step(config.seed, number, self._device)
        compute_began = time.perf_counter()
        losses = Losses()
        statistics: dict[str, Tensor] = {}
        for part, divisor in zip(parts, divisors, strict=True):
            result = self._pass(part)
            loss = self._loss(result, divisor, losses)
            statistics = added(statistics, result.extras.statistics)
            (loss / divisor if divisor != 1 else loss).backward()
        mean_loss = losses.read(number + 1, self._group)
        self._group.sum_gradients(self._learner.parameters())
        if config.clip is not None:
            for parameters in self._clipped:
                torch.nn.utils.clip_grad_norm_(parameters, config.clip)
        share = config.schedule.share(number, config.batches)
        self._optimizer.step(share if self.rate == config.lr else share * self.rate / config.lr)
        self._optimizer.zero_grad()
        self._learner.model.after_update(number + 1, self._group.sum(statistics))
        ended = time.perf_counter()
        return Update(mean_loss, self.rate * share, ended - began, ended - compute_began)

    def _divisors(self, batch: Batch, parts: list[Batch]) -> list[float]:
        """What the mean losses of each micro-batch are divided by, so that their sum is the mean of the batch."""
        targets = self._learner.objective.targets
        if len(parts) == 1 and self._group.size == 1:
            return [1.0]
        batch_targets = targets(batch)
        return [batch_targets / targets(part) for part in parts]

    def _pass(self, part: Batch) -> Pass:
        """One micro-batch through model and objective."""
        with self._config.autocast(self._device):
            result: Pass = self._run(part, self.carried)
        self.carried = result.carried
        if self.carried and self._group.size > 1:
            raise ValueError("the objective carries tensors from step to step: train it in one process")
        return result

    def _loss(self, result: Pass, divisor: float, losses: Losses) -> Tensor:
        """The sum of the objective's and the weighted auxiliary losses of one micro-batch; each is also collected."""
        weights = self._learner.model.loss_weights
        terms = []
        for name, value in result.losses.items():
            losses.add(f"the training {name}", value, divisor)
            terms.append(value)
        for name, value in result.extras.losses.items():
            losses.add(f"the auxiliary loss {name}", value)
            terms.append(weights.get(name, 1.0) * value)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


def micro_batches(batch: Batch, pieces: int) -> list[Batch]:
    """The rows of a batch in `pieces` parts, in order."""
    chunks = {name: tensor.chunk(pieces) for name, tensor in batch.items()}
    return [{name: parts[piece] for name, parts in chunks.items()} for piece in range(pieces)]


def on(device: torch.device, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on a device."""
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def require_finite(model: nn.Module, step: int, held_out: float | None = None) -> None:
    """Raises NotFinite if a weight, or the held-out loss, is not finite: a checkpoint must never hold such a model."""
    if held_out is not None and not math.isfinite(held_out):
        raise NotFinite(_stopped(step, f"the held-out loss is {held_out}", model))
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise NotFinite(_stopped(step, f"the weight {name} is not finite", model))


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Seeds torch for one step, by splitmix64 of both: torch's CPU generator reads only the low 32 bits of a seed."""
    mixed = (seed * 0x632BE59BD9B4E019 + (step + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    mixed ^= mixed >> 31
    torch.default_generator.manual_seed(mixed % 2**63)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(mixed % 2**63)


def _stopped(step: int, why: str, model: nn.Module | None = None) -> str:
    """The message of an error that ends a training; a model that is fitted without gradients has no learning rate."""
    fits = isinstance(model, Model) and model.config.fits
    return f"stopped at step {step}: {why}" + ("" if fits else "; a lower training.lr may help, in another --out")
