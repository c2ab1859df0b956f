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
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.training.config import TrainConfig
from seqloom.training.learner import Batches, Learner


@final
@dataclass(frozen=True)
class Update:
    """What one step did: its batch's mean cost (nats a token), its time, and the part spent on the model."""

    cost: float
    seconds: float
    compute: float
    """seconds in forward, backward and optimizer"""


class NotFinite(ValueError):
    """A cost or a weight became NaN or infinite; the message names the step."""


def updates(
    model: Learner, optimizer: torch.optim.Optimizer, batches: Batches, config: TrainConfig
) -> Callable[[int], Update]:
    """The function that does the step of a given number. Raises NotFinite before learning from a cost not finite."""
    device = model.token.weight.device
    run: Callable[[Tensor], Tensor] = torch.compile(model) if config.compile else model
    autocast = torch.autocast(device.type, dtype=torch.bfloat16) if config.precision == "bf16" else nullcontext()
    pieces = config.accumulate

    def step(number: int) -> Update:
        began = time.perf_counter()
        batch = batches.batch(number, config.batch).to(device)
        _seed(config.seed, number, device)
        computing = time.perf_counter()
        cost = 0.0
        for piece in batch.chunk(pieces):
            with autocast:
                logits = run(piece[:, :-1])
                loss = cross_entropy(logits.float().flatten(0, 1), piece[:, 1:].flatten())
            cost += loss.item() / pieces
            if not math.isfinite(cost):
                raise NotFinite(_stopped(number + 1, f"the training cost is {cost}"))
            for name, extra in (entry for half in model.halves for entry in half.losses().items()):
                if not math.isfinite(extra.item()):
                    raise NotFinite(_stopped(number + 1, f"the auxiliary loss {name} is {extra.item()}"))
                loss = loss + extra
            (loss / pieces if pieces > 1 else loss).backward()
        if config.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for half in model.halves:
            half.after_update(number + 1)
        ended = time.perf_counter()
        return Update(cost, ended - began, ended - computing)

    return step


def require_finite(model: Learner, step: int, held_out: float | None = None) -> None:
    """Raises NotFinite if a weight, or the held-out cost, is not finite: a checkpoint must never hold such a model."""
    if held_out is not None and not math.isfinite(held_out):
        raise NotFinite(_stopped(step, f"the held-out cost is {held_out}"))
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise NotFinite(_stopped(step, f"the weight {name} is not finite"))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's memory as named tensors: `3.exp_avg` is that of its parameter 3."""
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {f"{number}.{name}": value for number, held in state.items() for name, value in held.items()}


def fill_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Gives the optimizer back the memory that `optimizer_tensors` named.

    ValueError where it does not fit the optimizer's parameters.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, what = name.partition(".")
        known = number.isdecimal() and len(number) < 10 and int(number) < len(parameters)
        shape = {"step": torch.Size([])}.get(what, parameters[int(number)].shape) if known else None
        if tensor.shape != shape or not tensor.is_floating_point():
            raise ValueError(f"the optimizer of this model has no {name!r} of shape {tuple(tensor.shape)}")
        state.setdefault(int(number), {})[what] = tensor
    for position, entries in state.items():
        if set(entries) != {"step", "exp_avg", "exp_avg_sq"}:
            raise ValueError(f"the optimizer's memory of parameter {position} is only {', '.join(sorted(entries))}")
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


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
