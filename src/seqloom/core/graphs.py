"""Graph capture: marks constants, and says whether a graph is captured, without importing torch's compiler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])
_chosen_as_captured: ContextVar[bool] = ContextVar("seqloom_chosen_as_captured", default=False)


def constant(function: F) -> F:
    """Marks a function whose result is a constant of a captured graph, as `torch.compiler.assume_constant_result` does.

    torch's function imports torch._dynamo, which takes as long as importing torch, and most commands never use it. The
    mark on the function is the same.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # the attribute that torch sets
    return function


def capturing() -> bool:
    """Whether a graph is captured here. Rules and `fits` of backends ask this, never `torch.compiler.is_compiling`."""
    return torch.compiler.is_compiling() or _chosen_as_captured.get()


@contextmanager
def as_in_a_graph(captured: bool) -> Iterator[None]:
    """Inside the block, if `captured`, ops choose their backends as in a captured graph, although they run eagerly."""
    token = _chosen_as_captured.set(captured)
    try:
        yield
    finally:
        _chosen_as_captured.reset(token)
