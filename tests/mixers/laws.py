"""What first values follow: a distribution, between which bounds, or the numbers themselves."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from torch.nn.functional import softplus

Exact: TypeAlias = Callable[[Any], Tensor | float]
"""the mixer → the values of the parameter, or the one value that all have"""


@final
@dataclass(frozen=True)
class Law:
    """A distribution of independent numbers."""

    share_below: Callable[[Tensor], Tensor]
    """of numbers of the parameter: the probability of one below each"""

    def fault(self, values: Tensor) -> str:
        """What tells the values from a sample of the law, or "": bounds, whether they are reached, and the shape.

        The largest distance between the two distribution functions is below 2 / √n but for one sample in 1,500.
        """
        shares = self.share_below(values.flatten().double()).sort().values
        n = len(shares)
        if not bool(((shares >= 0) & (shares <= 1)).all()):
            return "a value is out of bounds"
        if float(shares[0]) > 9 / n or float(shares[-1]) < 1 - 9 / n:
            return f"values end at {float(shares[0]):.3g} and {float(shares[-1]):.3g} of their range"
        steps = torch.arange(n + 1, dtype=torch.float64) / n
        distance = max(float((shares - steps[:-1]).max()), float((steps[1:] - shares).max()))
        return f"values are {distance:.3f} off" if distance > 2 / math.sqrt(n) else ""


def normal(std: float) -> Law:
    """Around 0."""
    return Law(lambda x: torch.special.ndtr(x / std))


def uniform(low: float, high: float) -> Law:
    """From low to high."""
    return Law(lambda x: _within((x - low) / (high - low)))


def symmetric(bound: float) -> Law:
    """Uniform in ± bound."""
    return uniform(-bound, bound)


def log_of_uniform(low: float, high: float) -> Law:
    """The logarithm of numbers uniform from low to high."""
    return Law(lambda x: _within((x.exp() - low) / (high - low)))


def log_uniform(low: float, high: float) -> Law:
    """The logarithm of numbers whose logarithm is uniform."""
    return uniform(math.log(low), math.log(high))


def steps(low: float = 1e-3, high: float = 0.1) -> Law:
    """The inverse of softplus of numbers whose logarithm is uniform."""
    return Law(lambda x: _within((softplus(x).log() - math.log(low)) / math.log(high / low)))


def _within(shares: Tensor) -> Tensor:
    """With rounding errors of float32 at the ends taken off."""
    near = shares.clamp(0, 1)
    return torch.where((shares - near).abs() < 1e-5, near, shares)
