"""Modules without values: their tensors have sizes and take no memory, and nothing is drawn into them.

    with without_values():
        parameters = list(config.build(dim, context).parameters())

torch writes random numbers into a tensor on its meta device by a decomposition in Python, for which it imports its
compiler: seconds, in which nothing is computed. Here a function that fills a tensor in place returns it as it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode
from typing_extensions import override

FILLS = frozenset(
    {
        *("normal_", "uniform_", "trunc_normal_", "exponential_", "bernoulli_", "log_normal_", "cauchy_", "geometric_"),
        *("kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "orthogonal_", "random_"),
    }
)
"""functions of `torch.nn.init` and methods that write random numbers into a tensor"""


@contextmanager
def without_values() -> Iterator[None]:
    """What is built here is on torch's meta device, and no random numbers are drawn into it."""
    with torch.device("meta"), _Unfilled():
        yield


@final
class _Unfilled(TorchFunctionMode):
    """Leaves out the functions of `FILLS` for tensors on meta."""

    @override
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__name__", "") in FILLS:
            filled = args[0] if args else (kwargs or {})["tensor"]
            if filled.is_meta:
                return filled
        return func(*args, **(kwargs or {}))
