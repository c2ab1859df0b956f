"""The losses of a training step, and the error that ends a training whose losses or weights are not finite."""

import math
from typing import final

import torch
from torch import Tensor, nn

from seqloom.core.divided import part
from seqloom.core.model import Model
from seqloom.training.group import Group


class NotFinite(ValueError):
    """A loss or a weight became NaN or infinite; the message names the step."""


@final
class Losses:
    """The losses of a step's micro-batches, and the norm of their gradient, held on the device and read together.

    loss, norm = losses.read(losses.values().tolist(), step, group)
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._divisors: list[float | None] = []
        self._values: list[Tensor] = []
        self._norm: Tensor | None = None

    def add(self, name: str, value: Tensor, divisor: float | None = None) -> None:
        """Takes in a scalar, without its gradient; with a divisor it is part of the loss of the step."""
        self._names.append(name)
        self._divisors.append(divisor)
        self._values.append(value.detach().double())

    def add_norm(self, norm: Tensor) -> None:
        """Takes in the norm of the gradient, a scalar, when all losses are there."""
        self._norm = norm.double()

    def values(self) -> Tensor:
        """All of them in float64, on the device, and the norm of the gradient."""
        assert self._norm is not None
        return torch.stack([*self._values, self._norm])

    def read(self, numbers: list[float], step: int, group: Group) -> tuple[float, float]:
        """The loss of the step, of all processes, and the norm of its gradient, given `values` as numbers.

        Raises NotFinite, which names the first of them that is not finite.
        """
        *values, norm = numbers
        shares = [value / (divisor or 1.0) for value, divisor in zip(values, self._divisors, strict=True)]
        total = 0.0
        for rank_shares in group.gather(shares):
            for name, share, divisor in zip(self._names, rank_shares, self._divisors, strict=True):
                if not math.isfinite(share):
                    raise NotFinite(_stop_message(step, f"{name} is {share}"))
                if divisor is not None:
                    total += share
        if not math.isfinite(norm):
            raise NotFinite(_stop_message(step, f"the norm of the gradient is {norm}"))
        return total, norm


def require_finite(model: nn.Module, step: int, held_out: float | None = None) -> None:
    """Raises NotFinite if a weight, or the held-out loss, is not finite: a checkpoint must never hold such a model."""
    if held_out is not None and not math.isfinite(held_out):
        raise NotFinite(_stop_message(step, f"the held-out loss is {held_out}", model))
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(part(parameter)).all()):
            raise NotFinite(_stop_message(step, f"the weight {name} is not finite", model))


def _stop_message(step: int, why: str, model: nn.Module | None = None) -> str:
    """The message of an error that ends a training; a model that is fitted without gradients has no learning rate."""
    fits = isinstance(model, Model) and model.config.fits
    return f"stopped at step {step}: {why}" + ("" if fits else "; a lower training.lr may help, in another --out")
