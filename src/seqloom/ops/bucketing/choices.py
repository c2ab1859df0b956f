"""Records and replays the choices of buckets of a pass, to test promises of mixers whose choice looks ahead.

    with recorded() as choices: y = mixer(x)
    with fixed(choices): z = mixer(x + change)          reads x + change in the buckets of x

Choices are recorded and replayed in the order of the calls. In a captured graph nothing is recorded or replayed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
_records: ContextVar[list[Any] | None] = ContextVar("seqloom_choices", default=None)
_soft_too: ContextVar[bool] = ContextVar("seqloom_fixed_weights", default=False)
_fixed: ContextVar[Iterator[Any] | None] = ContextVar("seqloom_fixed_choices", default=None)


def make_choice(choose: Callable[[], T]) -> T:
    """Returns `choose()`, computed without gradients; inside a block of `fix_choices` the fixed choice instead."""
    with torch.no_grad():
        return _make_choice(choose)


def soft_choice(choose: Callable[[], Tensor]) -> Tensor:
    """Returns `choose()`, weights with gradients; a block of `soft_too` records and fixes them like choices."""
    if torch.compiler.is_compiling() or not _soft_too.get():
        return choose()
    weights = _make_choice(choose)
    return weights if _fixed.get() is None else weights.detach()


def _make_choice(choose: Callable[[], T]) -> T:
    if torch.compiler.is_compiling():
        return choose()
    fixed_choices, records = _fixed.get(), _records.get()
    choice: T = choose() if fixed_choices is None else next(fixed_choices)
    if records is not None:
        records.append(choice)
    return choice


@contextmanager
def record_choices() -> Iterator[list[Any]]:
    """Yields a list to which the choices inside the block are appended, in order."""
    choices: list[Any] = []
    token = _records.set(choices)
    try:
        yield choices
    finally:
        _records.reset(token)


@contextmanager
def fix_choices(choices: Sequence[Any]) -> Iterator[None]:
    """Replays these choices inside the block, in order; StopIteration where there are too few."""
    token = _fixed.set(iter(choices))
    try:
        yield
    finally:
        _fixed.reset(token)


@contextmanager
def soft_too() -> Iterator[None]:
    """Inside the block, choices by weights are recorded and fixed too; elsewhere they depend on the input."""
    token = _soft_too.set(True)
    try:
        yield
    finally:
        _soft_too.reset(token)
