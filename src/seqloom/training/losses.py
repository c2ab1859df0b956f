"""The losses of a training step, and the error that ends a training whose losses or weights are not finite."""

import math
from typing import final

import torch
from torch import Tensor, nn

from seqloom.core.model import Model
from seqloom.training.group import Group


class NotFinite(ValueError):
    """A loss or a weight became NaN or infinite; the message names the step."""


@final
class Losses:
    """The losses of a step's micro-batches, held on the device and read from it together: `mean(values().tolist())`."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._divisors: list[float | None] = []
        self._values: list[Tensor] = []

    def add(self, name: str, value: Tensor, divisor: float | None = None) -> None:
        """Takes in a scalar, without its gradient; with a divisor it is part of the loss of the step."""
        self._names.append(name)
        self._divisors.append(divisor)
        self._values.append(value.detach().double())

    def values(self) -> Tensor:
        """All of them in float64, on the device."""
        return torch.stack(self._values)

    def mean(self, values: list[float], step: int, group: Group) -> float:
        """The loss of the step, of all processes, given `values` as numbers.

        Raises NotFinite, which names the first loss that is not finite.
        """
        shares = [value / (divisor or 1.0) for value, divisor in zip(values, self._divisors, strict=True)]
        total = 0.0
        for rank_shares in group.gather(shares):
            for name, share, divisor in zip(self._names, rank_shares, self._divisors, strict=True):
                if not math.isfinite(share):
                    raise NotFinite(_stopped(step, f"{name} is {share}"))
                if divisor is not None:
                    total += share
        return total


def require_finite(model: nn.Module, step: int, held_out: float | None = None) -> None:
    """Raises NotFinite if a weight, or the held-out loss, is not finite: a checkpoint must never hold such a model."""
    if held_out is not None and not math.isfinite(held_out):
        raise NotFinite(_stopped(step, f"the held-out loss is {held_out}", model))
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise NotFinite(_stopped(step, f"the weight {name} is not finite", model))


def _stopped(step: int, why: str, model: nn.Module | None = None) -> str:
    """The message of an error that ends a training; a model that is fitted without gradients has no learning rate."""
    fits = isinstance(model, Model) and model.config.fits
    return f"stopped at step {step}: {why}" + ("" if fits else "; a lower training.lr may help, in another --out")
