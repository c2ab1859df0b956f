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

from seqloom.core.state import Length

Compute = Callable[[int, int], Tensor]
"""(first, last) → the taps first … last - 1, (N, last - first, D)"""


@final
class Kept:
    """The first taps of some filters, as many as were needed so far. Copies and pickles of it are empty."""

    def __init__(self) -> None:
        self._entry: tuple[Tensor, Tensor, int] | None = None

    def reaching(
        self, length: Length, tokens: int, context: int, parameters: Sequence[Tensor], compute: Compute
    ) -> Float[Tensor, "N M D"]:
        """The taps that are needed by rows that have read `length` and read `tokens` more, at most `context` taps.

        `compute` is called for taps that are not cached; with gradients, and while a graph is captured, for all taps.
        The caller must not write into the result.
        """
        if length.bound is None:
            return compute(0, context)  # inside a compiled graph the number of tokens is not known
        count = min(length.bound + tokens, context)
        return compute(0, count) if torch.is_grad_enabled() else self._taps(count, context, parameters, compute)

    def _taps(self, count: int, context: int, parameters: Sequence[Tensor], compute: Compute) -> Tensor:
        values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        entry = self._entry
        known_values, taps, known = entry if entry is not None and _same(values, entry[0]) else (values, values, 0)
        if known < count:
            more = compute(known, count)
            if known == 0:
                with torch.inference_mode(False):  # tensors made in inference mode could not be changed outside of it
                    taps, known_values = more.new_empty(len(more), context, *more.shape[2:]), torch.empty_like(values)
                known_values.copy_(values)
            taps[:, known:count] = more
            self._entry = known_values, taps, count
        return taps[:, :count]

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


def _same(a: Tensor, b: Tensor) -> bool:
    alike = a.dtype == b.dtype and a.device == b.device and a.shape == b.shape
    return alike and bool((a == b).all())
