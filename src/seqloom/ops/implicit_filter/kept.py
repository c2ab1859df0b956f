"""Filters kept from one token to the next, for as long as the parameters that they were computed from stay the same.

Token by token a filter would otherwise be computed again each time, which costs far more than reading with it. What is
kept is compared with the parameters by value: torch counts the changes of a tensor, but neither those by way of `.data`
nor those of its fused optimizers, and a filter that has gone stale would show nowhere. So nothing can make it stale.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.state import Length

Compute = Callable[[int, int], Tensor]
"""(first, last) → the taps from the one to before the other, (N, last - first, D)"""


@final
class Kept:
    """The first taps of some filters, as many as were asked for so far. Copies and pickles begin empty."""

    def __init__(self) -> None:
        self._held: tuple[Tensor, Tensor, int] | None = None

    def reaching(
        self, length: Length, tokens: int, context: int, parameters: Sequence[Tensor], compute: Compute
    ) -> Float[Tensor, "N M D"]:
        """The taps that rows need which have read `length` and go on by `tokens`; `context` of them at most.

        `compute` is asked for those that are not held. With gradients, and while a graph is captured, for all: the held
        ones carry none, and what is kept is no part of a graph. Whoever takes them must not write into them.
        """
        if length.bound is None:
            return compute(0, context)  # how many were read is not known either
        count = min(length.bound + tokens, context)
        return compute(0, count) if torch.is_grad_enabled() else self._taps(count, context, parameters, compute)

    def _taps(self, count: int, context: int, parameters: Sequence[Tensor], compute: Compute) -> Tensor:
        now = torch.cat([parameter.detach().flatten() for parameter in parameters])
        held = self._held
        then, taps, known = held if held is not None and _same(now, held[0]) else (now, now, 0)
        if known < count:
            more = compute(known, count)
            if known == 0:
                with torch.inference_mode(False):  # tensors made in inference mode could not be changed outside of it
                    taps, then = more.new_empty(len(more), context, *more.shape[2:]), torch.empty_like(now)
                then.copy_(now)
            taps[:, known:count] = more
            self._held = then, taps, count
        return taps[:, :count]

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


def _same(a: Tensor, b: Tensor) -> bool:
    alike = a.dtype == b.dtype and a.device == b.device and a.shape == b.shape
    return alike and bool((a == b).all())
