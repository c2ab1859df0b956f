"""What code says to the capture of graphs, without importing torch's compiler, and what it asks about it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])
_rehearsed: ContextVar[bool] = ContextVar("seqloom_rehearsed", default=False)


def constant(function: F) -> F:
    """Marks a function whose result is a constant of a captured graph, as `torch.compiler.assume_constant_result` does.

    torch's function imports torch._dynamo, which takes as long as importing torch, and most commands never use it. The
    mark on the function is the same.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # the attribute that torch sets
    return function


def capturing() -> bool:
    """Whether a graph is captured here, for the rules that choose an op's backend."""
    return torch.compiler.is_compiling() or _rehearsed.get()


@contextmanager
def rehearsed(captured: bool) -> Iterator[None]:
    """Inside the block, if `captured`, `capturing` is true: ops choose as in a graph, although they run at once."""
    token = _rehearsed.set(captured)
    try:
        yield
    finally:
        _rehearsed.reset(token)
