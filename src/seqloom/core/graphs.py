"""A mark on functions for graph capture."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def constant(function: F) -> F:
    """Marks a function whose result a captured graph keeps, as `torch.compiler.assume_constant_result` does.

    That one imports torch._dynamo, which takes as long as torch itself and which most commands never use. The mark is
    the same.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as torch writes it
    return function
