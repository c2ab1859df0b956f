"""Promise 5: a row does not depend on the other rows, whatever they hold."""

import math

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import Largest, largest, promise
from seqloom.contracts.subject import Subject, at_each_size, forward

NOISE = (math.nan, 1e6, math.inf)


@promise("rows")
def rows(subject: Subject) -> Largest:
    """Each row of a batch gives the same output as alone."""
    worst = Largest(subject.scale)

    def read(module: nn.Module, T: int) -> None:
        _rows_alone(subject, module, subject.draw(4, T, subject.dim), worst)

    at_each_size(read, subject, 1, 5)
    return worst


@torch.no_grad()
def _rows_alone(subject: Subject, module: nn.Module, x: Tensor, worst: Largest) -> None:
    y = forward(module, x)
    for row in range(len(x)):
        worst.close(y[row], forward(module, x[row : row + 1])[0], subject.strict, f"row {row} next to others")
    worst.settle()
    with largest(subject.scale) as noisy:
        for row in range(len(x)):
            for noise in NOISE:
                others = torch.full_like(x, noise)
                others[row] = x[row]
                noisy.close(forward(module, others)[row], y[row], subject.strict, f"row {row} next to rows of {noise}")
