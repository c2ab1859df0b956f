"""The gradients of the recurrence, which are the same recurrence from the last token to the first.

    g_t = dh_t + conj(a_{t+1}) g_{t+1}                       what reaches h_t, and b_t
    da_t = g_t conj(h_{t-1}),   dstate = conj(a_1) g_1

So any way to run it forward is one to run it backward, and what is written with a differentiable one is differentiable
again. A gradient of a complex number is torch's: dL/dRe + i dL/dIm. Source: ours, by the chain rule.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Scan: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""a (N,) or (B, T, N), b (B, T, N) and the state (B, N), of one dtype → every h (B, T, N)"""


def through(run: Scan) -> Scan:
    """`run` with gradients of any order, also where it computes in place."""

    def scan(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
        return _Scan.apply(a, b, state, run)  # type: ignore[no-untyped-call]  # as torch leaves it

    return scan


def gradients(run: Scan, a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of a, b and the state."""
    given = dh.flip(1)
    if a.ndim == 1:
        g = run(a.conj(), given, torch.zeros_like(state)).flip(1)
    else:  # the last token has no successor: the factor rolled to it meets a zero
        g = run(a.roll(-1, 1).flip(1).conj(), given, torch.zeros_like(state)).flip(1)
    da = g * torch.cat([state[:, None], h[:, :-1]], 1).conj()
    first = a if a.ndim == 1 else a[:, 0]
    return da.sum((0, 1)) if a.ndim == 1 else da, g, first.conj() * g[:, 0]


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, state: Tensor, run: Scan) -> Tensor:
        h = run(a, b, state)
        ctx.save_for_backward(a, h, state)
        ctx.run = run
        return h

    @staticmethod
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor | None, ...]:
        a, h, state = ctx.saved_tensors
        run = through(ctx.run) if torch.is_grad_enabled() else ctx.run
        return *gradients(run, a, h, state, dh), None
