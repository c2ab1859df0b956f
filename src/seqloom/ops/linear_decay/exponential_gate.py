"""A decay and an exponential input gate as numbers that neither overflow nor vanish: relative to a running maximum.

    m_t = max(log f_t + m_{t-1}, log i_t),   m_0 = -∞
    g_t = log f_t + m_{t-1} - m_t ≤ 0,   i'_t = e^{log i_t - m_t} ≤ 1

The sums of `linear_decay` with decay g and keys i' k are those with decay log f and keys i k, times e^{-m_t}. All
tokens at once, m_t = F_t + max_{j≤t} (log i_j - F_j) with F the sums of log f: however F is rounded, g and i' belong to
the same m. m_{t-1} - m_t is formed first: it is exact or nearly so, and its sums telescope, so a large m leaves no
rounding of its own size in each g. g and i' take m as given, since sums over their normaliser do not depend on it; m
itself has gradients, for what is read from the scaled sums alone.

Source: Beck et al., xLSTM, arXiv:2405.04517, Eq. 15-17 and appendix A. Nothing differs.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths
from seqloom.ops.pack import within

NONE = -1e30
"""what stands for -∞, whose differences are numbers"""


class Stabilized(NamedTuple):
    """Gates relative to the maximum."""

    log_decay: Float[Tensor, "B H T"]
    gain: Float[Tensor, "B H T"]
    maximum: Float[Tensor, "B H T"]


def stabilized(
    log_f: Float[Tensor, "B H T"],
    log_i: Float[Tensor, "B H T"],
    before: Float[Tensor, "B H"] | None = None,
    lengths: Lengths | None = None,
) -> Stabilized:
    """g, i' and m, in float32 or better; `before` is m before the first token, None for -∞."""
    wide = torch.promote_types(log_f.dtype, torch.float32)
    log_f, log_i = log_f.to(wide), log_i.to(wide)
    if lengths is not None:  # padding leaves m as it is
        real = within(lengths, log_f.shape[2])[:, None]
        log_f, log_i = torch.where(real, log_f, 0.0), torch.where(real, log_i, NONE)
    first = torch.full_like(log_f[..., :1], NONE) if before is None else before.to(wide)[..., None]
    F = pad(log_f, (1, 0)).cumsum(-1)[..., 1:]
    m = F + torch.cat([first, log_i - F], -1).cummax(-1).values[..., 1:]
    now = m.detach()
    earlier = torch.cat([first.detach(), now[..., :-1]], -1)
    return Stabilized(log_f + (earlier - now), (log_i - now).exp(), m)


def price(rows: int, H: int) -> Cost:
    """The operations of so many tokens."""
    n = rows * H
    return Cost(add=6 * n, exp=n, other=n, path=("addition", "other", "addition", "exponentiation"))
