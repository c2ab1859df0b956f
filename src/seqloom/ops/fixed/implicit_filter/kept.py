"""A cache of filters between tokens, valid as long as the parameters that they were computed from do not change.

Without it every step would compute the filters, which takes much longer than using them. A copy of the parameters is
compared by value at each use: torch's version counters miss changes through `.data` and by fused optimizers, and an
outdated filter would go unnoticed.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.graphs import is_transformed
from seqloom.core.state import Length

Compute = Callable[[int, int], Tensor]
"""(first, last) → the taps first … last - 1, (N, last - first, D)"""


@final
class Kept:
    """The first taps of some filters, as many as were needed so far. Copies and pickles of it are empty."""

    def __init__(self) -> None:
        self._entry: tuple[Tensor, Tensor, int] | None = None
        """the values of the parameters, taps (N, context, D), and how many of these are computed"""

    def reaching(
        self, length: Length, tokens: int, context: int, parameters: Sequence[Tensor], compute: Compute
    ) -> Float[Tensor, "N M D"]:
        """The taps that rows need which have read `length` tokens and read `tokens` more: at most `context` taps.

        `compute` is called for taps that are not cached; with gradients, under torch.func's transforms, and while a
        graph is captured, for all taps.
        The caller must not write into the result.
        """
        if length.bound is None:
            return compute(0, context)  # inside a compiled graph the number of tokens is unknown
        count = min(length.bound + tokens, context)
        if torch.is_grad_enabled() or is_transformed():
            return compute(0, count)
        return self._taps(count, context, parameters, compute)

    def _taps(self, count: int, context: int, parameters: Sequence[Tensor], compute: Compute) -> Tensor:
        """The first `count` taps, of which only those that are not cached are computed."""
        values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        if self._entry is not None and _same(values, self._entry[0]):
            cached_values, taps, cached = self._entry
        else:
            cached_values, taps, cached = values, values, 0  # placeholders: nothing is cached
        if cached < count:
            new_taps = compute(cached, count)
            if cached == 0:
                with torch.inference_mode(False):  # tensors made in inference mode could not be changed outside of it
                    taps = new_taps.new_empty(len(new_taps), context, *new_taps.shape[2:])
                    cached_values = torch.empty_like(values)
                cached_values.copy_(values)
            taps[:, cached:count] = new_taps
            self._entry = cached_values, taps, count
        return taps[:, :count]

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


def _same(a: Tensor, b: Tensor) -> bool:
    comparable = a.dtype == b.dtype and a.device == b.device and a.shape == b.shape
    return comparable and bool((a == b).all())
