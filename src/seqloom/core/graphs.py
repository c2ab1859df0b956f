"""Marks a function as constant for graph capture, without importing torch's compiler."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def constant(function: F) -> F:
    """Marks a function whose result is a constant of a captured graph, as `torch.compiler.assume_constant_result` does.

    torch's function imports torch._dynamo, which takes as long as importing torch, and most commands never use it. The
    mark on the function is the same.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # the attribute that torch sets
    return function
