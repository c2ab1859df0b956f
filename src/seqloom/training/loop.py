"""The training loop: a batch, its cost, its gradient, an update, a row; and now and then a checkpoint.

Whatever is random is a pure function of (seed, step): the batch (`data/windows`) and the dropout (the generator is
seeded anew at each step). So a run that was interrupted goes on bit for bit as if it had not been, knowing only its
step.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.core.extras import Extras, added
from seqloom.training.config import TrainConfig
from seqloom.training.learner import Batches, Learner
from seqloom.training.optimizers import Optimizer

COST = "the training cost"


@final
@dataclass(frozen=True)
class Update:
    """What one step did: its batch's mean cost (nats a token), its learning rate, its time, and that of the model."""

    cost: float
    lr: float
    seconds: float
    compute: float
    """seconds in forward, backward and optimizer"""


class NotFinite(ValueError):
    """A cost or a weight became NaN or infinite; the message names the step."""


@final
class Losses:
    """The losses of a step's pieces, collected where they were computed and read from the device together."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._values: list[Tensor] = []

    def add(self, name: str, value: Tensor) -> None:
        """Takes in a scalar, without its gradient; `COST` is the one that each piece has."""
        self._names.append(name)
        self._values.append(value.detach().double())

    def read(self, step: int) -> float:
        """The mean of the costs. Raises NotFinite, which names the first loss that is not finite."""
        values = torch.stack(self._values).tolist()
        pieces, cost = self._names.count(COST), 0.0
        for name, value in zip(self._names, values, strict=True):
            if not math.isfinite(value):
                raise NotFinite(_stopped(step, f"{name} is {value}"))
            if name == COST:
                cost += value / pieces
        return cost


def updates(model: Learner, optimizer: Optimizer, batches: Batches, config: TrainConfig) -> Callable[[int], Update]:
    """The function that does the step of a given number, from 0. Raises NotFinite before such a cost changes a weight.

    The device is waited for once in a step: where the costs of its pieces are read.
    """
    device = model.token.weight.device
    run: Callable[[Tensor], tuple[Tensor, Extras]] = model.forward_with_extras
    run = torch.compile(run) if config.compile else run
    weights = model.loss_weights
    autocast = torch.autocast(device.type, dtype=torch.bfloat16) if config.precision == "bf16" else nullcontext()
    pieces = config.accumulate

    def step(number: int) -> Update:
        began = time.perf_counter()
        batch = batches.batch(number, config.batch).to(device)
        _seed(config.seed, number, device)
        computing = time.perf_counter()
        losses = Losses()
        statistics: dict[str, Tensor] = {}
        for piece in batch.chunk(pieces):
            with autocast:
                logits, extras = run(piece[:, :-1])
                wide = torch.promote_types(logits.dtype, torch.float32)
                loss = cross_entropy(logits.to(wide).flatten(0, 1), piece[:, 1:].flatten())
            losses.add(COST, loss)
            for name, auxiliary in extras.losses.items():
                losses.add(f"the auxiliary loss {name}", auxiliary)
                loss = loss + weights.get(name, 1.0) * auxiliary
            statistics = added(statistics, extras.statistics)
            (loss / pieces if pieces > 1 else loss).backward()
        cost = losses.read(number + 1)
        if config.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        share = config.schedule.share(number, config.batches)
        optimizer.step(share)
        optimizer.zero_grad()
        model.after_update(number + 1, statistics)
        ended = time.perf_counter()
        return Update(cost, config.lr * share, ended - began, ended - computing)

    return step


def require_finite(model: Learner, step: int, held_out: float | None = None) -> None:
    """Raises NotFinite if a weight, or the held-out cost, is not finite: a checkpoint must never hold such a model."""
    if held_out is not None and not math.isfinite(held_out):
        raise NotFinite(_stopped(step, f"the held-out cost is {held_out}"))
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise NotFinite(_stopped(step, f"the weight {name} is not finite"))


def _seed(seed: int, step: int, device: torch.device) -> None:
    """Seeds torch for one step: splitmix64, since torch's CPU generator reads only the low 32 bits."""
    mixed = (seed * 0x632BE59BD9B4E019 + (step + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    mixed ^= mixed >> 31
    torch.default_generator.manual_seed(mixed % 2**63)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(mixed % 2**63)


def _stopped(step: int, why: str) -> str:
    return f"stopped at step {step}: {why}; a lower training.lr may help, in another --out"
