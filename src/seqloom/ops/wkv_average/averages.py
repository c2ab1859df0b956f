"""The running average as a mean that each token moves by its share, which no size of the keys can overflow.

    l_t = ln(e^{l_{t-1} - w} + e^{k_t})                     the logarithm of the sum of weights after token t
    m_t = m_{t-1} + g_t (v_t - m_{t-1}),   g_t = σ(k_t + w - l_{t-1})     the mean after it, g_t its token's share
    y_t = m_{t-1} + s_t (v_t - m_{t-1}),   s_t = σ(k_t + u - l_{t-1})

and backward, from the last token to the first, with d' = v_t - m_{t-1}:

    M_{t-1} = (1 - g_t) M_t + (1 - s_t) dy_t               what reaches m_{t-1};  dv_t = s_t dy_t + g_t M_t
    e_t = s_t (1 - s_t) dy_t d',   f_t = g_t (1 - g_t) M_t d'
    N_{t-1} = (1 - g_t) N_t - e_t - f_t                    what reaches l_{t-1};  dk_t = e_t + f_t + g_t N_t
    du = Σ e_t,   dw = Σ (f_t - (1 - g_t) N_t)

A backend is a module with these two: how it walks along the tokens is its own affair. Source: ours; it is the equation
of `seqloom.ops.wkv_average` divided through by its denominators.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from seqloom.ops.autograd import CPU, Operator, paired
from seqloom.ops.wkv_average import doubling

NOTHING = -1e38
"""the logarithm of a sum of no weights: finite, so that no difference of two is NaN"""


@runtime_checkable
class Walk(Protocol):
    """A fast backend."""

    def forward(
        self, k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """y (B, T, D), and mean and logarithm before the first and after each token (B, T+1, D)."""

    def backward(
        self,
        inputs: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
        mean: Tensor,
        log: Tensor,
        dy: Tensor,
        dmean: Tensor | None,
        dlog: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor, Tensor]:
        """Of k, v, w, u (None where they were) and of mean and log (B, D), from those of what `forward` gave.

        `mean` and `log` are what it gave, `inputs` the rest that it got; a gradient that is None is 0.
        """


Average: TypeAlias = Callable[..., tuple[Tensor, Tensor, Tensor]]
"""what `Walk.forward` computes, with gradients"""


def through(walk: Walk) -> Average:
    """The average by this walk, differentiable twice."""

    def average(*inputs: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        return _Average.apply(*inputs, walk)  # type: ignore[no-untyped-call]  # as torch leaves it

    return average


def by(average: Average) -> Callable[..., tuple[Tensor, Tensor]]:
    """`wkv` by this average, of the logarithm of w."""

    def run(
        k: Tensor, v: Tensor, log_rate: Tensor | None, u: Tensor | None, state: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return wkv(average, k, v, None if log_rate is None else log_rate.exp(), u, state, lengths)

    return run


def wkv(
    average: Average, k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, state: Tensor, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """(B, T, D) and the state (B, 3, D) → the averages (B, T, D) and the state after `lengths` tokens or the last.

    It comes at the scale at which its denominator is 1.
    """
    numerator, denominator, scale = state.unbind(1)
    some = denominator > 0
    sure = torch.where(some, denominator, 1.0)
    mean, log = torch.where(some, numerator / sure, 0.0), torch.where(some, scale + sure.log(), NOTHING)
    y, means, logs = average(k, v, w, u, mean, log)
    mean, log = after(means, lengths), after(logs, lengths)
    return y, torch.stack([mean, torch.ones_like(mean), log], 1)


def after(states: Tensor, lengths: Tensor | None) -> Tensor:
    """What (B, T+1, …) holds after `lengths` (B,) tokens of each row, or after the last."""
    if lengths is None:
        return states[:, -1]
    return states[torch.arange(len(states), device=states.device), lengths.clamp(0, states.shape[1] - 1)]


def operator(
    name: str,
    forward: Callable[..., tuple[Tensor, Tensor, Tensor]],
    backward: Callable[..., tuple[Tensor, ...]],
    devices: Sequence[str] = CPU,
) -> Operator:
    """A walk in native code: `backward` takes k, v, w, u, means and logs, then the gradients of what came out."""
    return paired(
        name,
        forward,
        backward,
        shapes=lambda k, *rest: [k.shape, *[(k.shape[0], k.shape[1] + 1, k.shape[2])] * 2],
        gradient_shapes=lambda k, *rest: [k.shape, k.shape, *[k.shape[2:]] * 2, *[(k.shape[0], k.shape[2])] * 2],
        save=lambda inputs, outputs: (*inputs[:4], *outputs[1:]),
        again=lambda k, v, w, u, *rest: doubling.backward((k, v, w, u), *rest),
        results=3,
        devices=devices,
    )


class _Average(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor, walk: Walk
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, means, logs = walk.forward(k, v, w, u, mean, log)
        ctx.save_for_backward(k, v, w, u, means, logs)
        ctx.set_materialize_grads(False)
        ctx.walk = walk
        return y, means, logs

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dmeans: Tensor | None, dlogs: Tensor | None) -> tuple[Tensor | None, ...]:
        k, v, w, u, means, logs = ctx.saved_tensors
        walk = doubling if torch.is_grad_enabled() else ctx.walk  # second derivatives need one that keeps all steps
        dy = torch.zeros_like(k) if dy is None else dy
        return (*walk.backward((k, v, w, u), means, logs, dy, dmeans, dlogs), None)
