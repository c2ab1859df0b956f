"""The running average as a mean that every token changes by its share, which cannot overflow for keys of any size.

    l_t = ln(e^{l_{t-1} - w} + e^{k_t})                     the logarithm of the sum of weights after token t
    m_t = m_{t-1} + g_t (v_t - m_{t-1}),   g_t = σ(k_t + w - l_{t-1})     the mean after token t, g_t the token's share
    y_t = m_{t-1} + s_t (v_t - m_{t-1}),   s_t = σ(k_t + u - l_{t-1})

and backward, from the last token to the first, with d' = v_t - m_{t-1}:

    M_{t-1} = (1 - g_t) M_t + (1 - s_t) dy_t               the gradient of m_{t-1};  dv_t = s_t dy_t + g_t M_t
    e_t = s_t (1 - s_t) dy_t d',   f_t = g_t (1 - g_t) M_t d'
    N_{t-1} = (1 - g_t) N_t - e_t - f_t                    the gradient of l_{t-1};  dk_t = e_t + f_t + g_t N_t
    du = Σ e_t,   dw = Σ (f_t - (1 - g_t) N_t)

A backend is a module that computes both recurrences (`Walk`).

Source: ours; it is the equation of `seqloom.ops.wkv_average` divided by its denominators.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from seqloom.ops.autograd import CPU, Operator, pair_operators
from seqloom.ops.wkv_average import doubling

NOTHING = -1e38
"""the logarithm of an empty sum: finite, so that differences are not NaN"""


@runtime_checkable
class Walk(Protocol):
    """A fast backend: both recurrences over the tokens."""

    def forward(
        self, k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """y (B, T, D), and m and l before the first token and after each token (B, T+1, D)."""

    def backward(
        self,
        inputs: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
        means: Tensor,
        logs: Tensor,
        dy: Tensor,
        dmeans: Tensor | None,
        dlogs: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor, Tensor]:
        """The gradients of k, v, w, u (None where these are None) and of the first mean and log (B, D).

        `means` and `logs` (B, T+1, D) are outputs of `forward`, `inputs` its k, v, w and u. `dmeans` and `dlogs` are
        None for 0.
        """


Average: TypeAlias = Callable[..., tuple[Tensor, Tensor, Tensor]]
"""what `Walk.forward` computes, with gradients"""


def differentiable(walk: Walk) -> Average:
    """The average by a walk, differentiable twice."""

    def average(*inputs: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        return _Average.apply(*inputs, walk)  # type: ignore[no-untyped-call]  # torch does not type it

    return average


def wkv_by(average: Average) -> Callable[..., tuple[Tensor, Tensor]]:
    """`wkv` by an average, as a function of ln w in place of w."""

    def run(
        k: Tensor, v: Tensor, log_rate: Tensor | None, u: Tensor | None, state: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return wkv(average, k, v, None if log_rate is None else log_rate.exp(), u, state, lengths)

    return run


def wkv(
    average: Average, k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, state: Tensor, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """(B, T, D) and the state (B, 3, D) → the averages (B, T, D) and the state after `lengths` tokens or the last.

    The state is scaled so that its denominator is 1.
    """
    numerator, denominator, scale = state.unbind(1)
    nonempty = denominator > 0
    divisor = torch.where(nonempty, denominator, 1.0)
    mean = torch.where(nonempty, numerator / divisor, 0.0)
    log = torch.where(nonempty, scale + divisor.log(), NOTHING)
    y, means, logs = average(k, v, w, u, mean, log)
    mean, log = state_after(means, lengths), state_after(logs, lengths)
    return y, torch.stack([mean, torch.ones_like(mean), log], 1)


def state_after(states: Tensor, lengths: Tensor | None) -> Tensor:
    """Of all states (B, T+1, …) the one after `lengths` (B,) tokens of each row, or after the last."""
    if lengths is None:
        return states[:, -1].clone()
    return states[torch.arange(len(states), device=states.device), lengths.clamp(0, states.shape[1] - 1)]


def operator(
    name: str,
    forward: Callable[..., tuple[Tensor, Tensor, Tensor]],
    backward: Callable[..., tuple[Tensor, ...]],
    devices: Sequence[str] = CPU,
) -> Operator:
    """A walk in native code; `backward` takes k, v, w, u, means and logs, then the gradients of the outputs."""
    return pair_operators(
        name,
        forward,
        backward,
        shapes=lambda k, *rest: [k.shape, *[(k.shape[0], k.shape[1] + 1, k.shape[2])] * 2],
        gradient_shapes=lambda k, *rest: [k.shape, k.shape, *[k.shape[2:]] * 2, *[(k.shape[0], k.shape[2])] * 2],
        save=lambda inputs, outputs: (*inputs[:4], *outputs[1:]),
        differentiable=lambda k, v, w, u, *rest: doubling.backward((k, v, w, u), *rest),
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
        walk = doubling if torch.is_grad_enabled() else ctx.walk  # `doubling` has derivatives, for second ones
        dy = torch.zeros_like(k) if dy is None else dy
        return (*walk.backward((k, v, w, u), means, logs, dy, dmeans, dlogs), None)
