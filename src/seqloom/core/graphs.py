"""What follows the operations that run here: graph capture, and torch.func's transforms. Imports no compiler.

Three things are told apart: a graph of torch's compiler, for which ops choose other backends (`capturing`); work that
the host gives to the device without reading anything back (`reads_values`), as a CUDA graph of the same code needs; and
transforms (`is_transformed`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch._C import _functorch
from torch.autograd import forward_ad

F = TypeVar("F", bound=Callable[..., Any])
_reads_values: ContextVar[bool] = ContextVar("seqloom_reads_values", default=True)
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


@constant
def is_transformed() -> bool:
    """Whether a transform of torch.func or a level of forward-mode differentiation is active.

    `vmap`, `grad`, `vjp`, `jvp`, `jacfwd`, `jacrev`, `linearize` and `torch.autograd.forward_ad` need torch's own
    operations. Kernels have gradients alone, which these transforms do not call, and they would drop tangents.
    """
    return forward_ad._current_level >= 0 or _functorch.maybe_current_level() is not None


@contextmanager
def as_in_a_graph(captured: bool) -> Iterator[None]:
    """Inside the block, if `captured`, ops choose their backends as in a captured graph, although they run eagerly."""
    token = _chosen_as_captured.set(captured)
    try:
        yield
    finally:
        _chosen_as_captured.reset(token)


def reads_values() -> bool:
    """Whether the host may read values of tensors here, such as to check ids. Otherwise it would wait for the device.

    Asked only where no graph is traced.
    """
    return _reads_values.get()


@contextmanager
def without_reading() -> Iterator[None]:
    """Inside the block no argument is checked by its values: its device has them, and the host does not wait for it."""
    token = _reads_values.set(False)
    try:
        yield
    finally:
        _reads_values.reset(token)
