"""The price of a layer of any package: the operations that torch executes for it, counted one by one.

Few tokens are read as zeros, which takes less time than torch needs to read tensors without values; many are read
without values, unless the layer looks at them. The critical path is not known. An operation that has no price here (a
kernel of another package) is named and not part of the counts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from seqloom.core.cost import Cost
from seqloom.core.error_text import first_line
from seqloom.core.without_values import without_values
from seqloom.counting.count import Executed, Unpriced, count

SEED = 7
FEW = 1 << 18
"""numbers of an input that are read with values"""


@final
@dataclass(frozen=True)
class Counted:
    """What was counted, and in words what could not be."""

    cost: Cost
    uncounted: str | None = None


def count_layer(build: Callable[[], nn.Module], run: Callable[[nn.Module], object], numbers: int) -> Counted:
    """What `run(layer)` executes, of the layer that `build` makes; `numbers` are read."""
    ways = (_with_values, without_values) if numbers <= FEW else (without_values, _with_values)
    for way in ways:
        try:
            with way(), torch.no_grad():
                return _count(build().eval(), run)
        except Exception as error:  # whatever a layer of a user raises, as one that looks at values or needs a GPU
            why = f"{type(error).__name__}: {first_line(error)[:80]}"
    return Counted(Cost(), f"its operations ({why})")


@contextmanager
def _with_values() -> Iterator[None]:
    """What is built here is on the CPU, of random numbers that the program does not miss."""
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        yield


def _count(layer: nn.Module, run: Callable[[Any], object]) -> Counted:
    try:
        return Counted(_cost(count(lambda: run(layer))))
    except Unpriced as error:
        return Counted(_cost(error.executed), f"what {', '.join(error.ops)} compute")


def _cost(executed: Executed) -> Cost:
    return Cost(executed.mul, executed.add, executed.div, executed.exp, executed.other)
