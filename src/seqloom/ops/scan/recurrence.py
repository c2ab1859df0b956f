"""The gradients of the recurrence, which are the same recurrence from the last token to the first.

    g_t = dh_t + conj(a_{t+1}) g_{t+1}                       the gradient of h_t, and of b_t
    da_t = g_t conj(h_{t-1}),   dstate = conj(a_1) g_1

So a backend for forward also computes the gradients, and these are differentiable again if the backend is. Gradients of
complex numbers are torch's, dL/dRe + i dL/dIm. Source: ours, by the chain rule.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Scan: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""a (N,) or (B, T, N), b (B, T, N) and the state (B, N), of one dtype → every h (B, T, N)"""


def differentiable(run: Scan) -> Scan:
    """`run` with gradients of any order, also where it computes in place."""

    def scan(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
        return _Scan.apply(a, b, state, run)  # type: ignore[no-untyped-call]  # torch does not type it

    return scan


def gradients(run: Scan, a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of a, b and the state."""
    reversed_dh = dh.flip(1)
    if a.ndim == 1:
        g = run(a.conj(), reversed_dh, torch.zeros_like(state)).flip(1)
    else:  # `roll` moves a_1 to the last token, where it multiplies the zero state
        g = run(a.roll(-1, 1).flip(1).conj(), reversed_dh, torch.zeros_like(state)).flip(1)
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
        run = differentiable(ctx.run) if torch.is_grad_enabled() else ctx.run
        return *gradients(run, a, h, state, dh), None
