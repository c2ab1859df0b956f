"""The scan in plain torch, span by span, forward and backward.

For a span of S tokens the decays a = e^{Δ A}, the states h and their gradients are in memory as (B, S, D, N); forward
saves only the state before each span for backward. With dy_t, and P_t the gradient that h_{t-1} gets from token t on:

    G_t = dy_t C_t + P_{t+1},   P_t = a_t ∘ G_t                        G_t is the gradient of h_t
    dC_t = Σ_d dy_t h_t,   dB_t = Σ_d G_t Δ_t u_t,   du_t = Δ_t (G_t · B_t)
    dΔ_t = u_t (G_t · B_t) + Σ_n P_t h_{t-1} A,   dA = Σ_t P_t h_{t-1} Δ_t

A `Walk` computes over a span the two recurrences h_t = a_t h_{t-1} + b_t and G_t = a_{t+1} G_{t+1} + c_t; here b_t is
the input Δ_t u_t B_t, and c_t is dy_t C_t.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.ops.past.pack import within
from seqloom.ops.scan.selective_scan import doubling
from seqloom.ops.scan.selective_scan.inputs import Scan


@runtime_checkable
class Walk(Protocol):
    """A module that computes both recurrences over a span: `sequential` or `doubling`."""

    SPAN: int
    """tokens of a span"""

    def onward(self, a: Tensor, b: Tensor, state: Tensor) -> Tensor:
        """h (B, S+1, D, N): the state before the span, and h_t = a_t h_{t-1} + b_t."""

    def back(self, a: Tensor, c: Tensor, last: Tensor) -> Tensor:
        """G (B, S, D, N) with G_t = c_t + a_{t+1} G_{t+1}; for the last token `last` is a_{t+1} G_{t+1}."""


def selective(walk: Walk, scan: Scan) -> tuple[Tensor, Tensor]:
    """y (B, T, D), and the state (B, D, N) at the end."""
    u, delta, log_rate, b, c, state, bias, skip, gate, lengths = scan
    step = delta if bias is None else F.softplus(delta + bias)
    if lengths is not None:
        real = within(lengths, u.shape[1])[:, :, None]
        step = torch.where(real, step, 0.0)  # with Δ = 0 the state does not change
    if state is None:
        state = u.new_zeros(len(u), *log_rate.shape)
    y, new_state = _Scan.apply(u, step, -log_rate.exp(), b, c, state, walk)  # type: ignore[no-untyped-call]  # torch does not type it
    if skip is not None:
        y = y + skip * u
    if gate is not None:
        y = y * F.silu(gate)
    return y if lengths is None else torch.where(real, y, 0.0), new_state


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, delta: Tensor, A: Tensor, b: Tensor, c: Tensor, state: Tensor, walk: Walk
    ) -> tuple[Tensor, Tensor]:
        y, states = _onward(walk, (u, delta, A, b, c), state)
        ctx.save_for_backward(u, delta, A, b, c, *states[:-1])
        ctx.walk = walk
        return y, states[-1].clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dnew_state: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once: a checkpoint recomputes them for one reading
        arguments, states, walk = saved[:5], saved[5:], ctx.walk
        if torch.is_grad_enabled():  # saved states have no history, so for second derivatives they are recomputed
            walk = doubling
            states = _onward(walk, arguments, states[0])[1][:-1]
        return (*_back(walk, arguments, states, dy, dnew_state), None)


def _onward(walk: Walk, arguments: Sequence[Tensor], state: Tensor) -> tuple[Tensor, list[Tensor]]:
    """y, and the state before each span and after the last."""
    (u, delta, A, b, c), outputs, states = arguments, [], [state]
    for span in _spans(walk, u):
        h = walk.onward(*_terms(u[:, span], delta[:, span], A, b[:, span]), states[-1])
        outputs.append((h[:, 1:] @ c[:, span, :, None])[..., 0])
        states.append(h[:, -1].clone())
    return torch.cat(outputs, 1), states


def _back(
    walk: Walk, arguments: Sequence[Tensor], states: Sequence[Tensor], dy: Tensor, dstate: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of `arguments` and of the first state, by the equations above.

    `states` are those before each span, `dstate` is the gradient of the last state.
    """
    u, delta, A, b, c = arguments
    dA, gradients = torch.zeros_like(A), []
    for span, state in reversed(list(zip(_spans(walk, u), states, strict=True))):
        u_span, delta_span, b_span, dy_span = u[:, span], delta[:, span], b[:, span], dy[:, span]
        a, inputs = _terms(u_span, delta_span, A, b_span)
        h = walk.onward(a, inputs, state)
        G = walk.back(a, dy_span[..., None] * c[:, span, None], dstate)
        P = a * G
        dstate = P[:, 0]
        P_h = P * h[:, :-1]
        G_b = (G @ b_span[..., None])[..., 0]
        dA = dA + (P_h * delta_span[..., None]).sum((0, 1))
        du = delta_span * G_b
        ddelta = u_span * G_b + (P_h * A).sum(3)
        db = ((delta_span * u_span)[:, :, None] @ G)[:, :, 0]
        dc = (dy_span[:, :, None] @ h[:, 1:])[:, :, 0]
        gradients.append((du, ddelta, db, dc))
    du, ddelta, db, dc = (torch.cat(spans, 1) for spans in zip(*reversed(gradients), strict=True))
    return du, ddelta, dA, db, dc, dstate.clone()


def _spans(walk: Walk, u: Tensor) -> list[slice]:
    return [slice(first, min(first + walk.SPAN, u.shape[1])) for first in range(0, u.shape[1], walk.SPAN)]


def _terms(u: Tensor, delta: Tensor, A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The decays e^{Δ A} and the inputs Δ u B of a span: both (B, S, D, N)."""
    return (delta[..., None] * A).exp(), (delta * u)[..., None] * b[:, :, None]
