"""The choices of buckets of a pass, recorded and held fixed: what promises are tested with where a choice looks ahead.

    with recorded() as choices: y = mixer(x)
    with fixed(choices): z = mixer(x + change)          reads x + change in the buckets of x

A choice is read once in each pass, in the order of the calls. In a captured graph nothing is recorded or fixed.
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


def chosen(choose: Callable[[], T]) -> T:
    """What `choose` returns without gradients, unless the block around the call holds it fixed."""
    with torch.no_grad():
        return _chosen(choose)


def soft_choice(choose: Callable[[], Tensor]) -> Tensor:
    """What `choose` returns, a choice by weights, with gradients; a choice only inside `soft_too`."""
    if torch.compiler.is_compiling() or not _soft_too.get():
        return choose()
    weights = _chosen(choose)
    return weights if _fixed.get() is None else weights.detach()


def _chosen(choose: Callable[[], T]) -> T:
    if torch.compiler.is_compiling():
        return choose()
    given, records = _fixed.get(), _records.get()
    choice: T = choose() if given is None else next(given)
    if records is not None:
        records.append(choice)
    return choice


@contextmanager
def recorded() -> Iterator[list[Any]]:
    """The choices made inside the block, in order."""
    choices: list[Any] = []
    token = _records.set(choices)
    try:
        yield choices
    finally:
        _records.reset(token)


@contextmanager
def fixed(choices: Sequence[Any]) -> Iterator[None]:
    """Inside the block these choices are made, one after the other; StopIteration where there are too few."""
    token = _fixed.set(iter(choices))
    try:
        yield
    finally:
        _fixed.reset(token)


@contextmanager
def soft_too() -> Iterator[None]:
    """Inside the block choices by weights are recorded and fixed as well; elsewhere they move with the input."""
    token = _soft_too.set(True)
    try:
        yield
    finally:
        _soft_too.reset(token)
