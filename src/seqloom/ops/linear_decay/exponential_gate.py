"""A decay and an exponential input gate relative to a running maximum, so that they neither overflow nor vanish.

    m_t = max(log f_t + m_{t-1}, log i_t),   m_0 = -∞
    g_t = log f_t + m_{t-1} - m_t ≤ 0,   i'_t = e^{log i_t - m_t} ≤ 1

The sums of `linear_decay` with decay g and keys i' k are those with decay log f and keys i k, times e^{-m_t}. For all
tokens at once, m_t = F_t + max_{j≤t} (log i_j - F_j), where F are the sums of log f. A rounding error of F changes m,
but g and i' are computed from the same m, so the sums stay right. g is log f + (m_{t-1} - m_t): the difference is exact
or nearly so, so that g has no rounding error of the size of m. g and i' treat m as a constant, since sums divided by
their normalizer do not depend on m; m itself has gradients, for outputs that are not divided.

Source: Beck et al., xLSTM, arXiv:2405.04517, Eq. 15-17 and appendix A. Nothing differs.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths
from seqloom.ops.past.pack import within

NONE = -1e30
"""stands for -∞: differences of such numbers are finite"""


class Stabilized(NamedTuple):
    """Gates relative to the maximum."""

    log_decay: Float[Tensor, "B H T"]
    """g"""
    gain: Float[Tensor, "B H T"]
    """i'"""
    maximum: Float[Tensor, "B H T"]
    """m"""


def stabilize_gates(
    log_f: Float[Tensor, "B H T"],
    log_i: Float[Tensor, "B H T"],
    before: Float[Tensor, "B H"] | None = None,
    lengths: Lengths | None = None,
) -> Stabilized:
    """g, i' and m, in float32 or better; `before` is m before the first token, None for -∞."""
    wide_dtype = torch.promote_types(log_f.dtype, torch.float32)
    log_f, log_i = log_f.to(wide_dtype), log_i.to(wide_dtype)
    if lengths is not None:  # padding leaves m as it is
        real = within(lengths, log_f.shape[2])[:, None]
        log_f, log_i = torch.where(real, log_f, 0.0), torch.where(real, log_i, NONE)
    first = torch.full_like(log_f[..., :1], NONE) if before is None else before.to(wide_dtype)[..., None]
    F = pad(log_f, (1, 0)).cumsum(-1)[..., 1:]
    m = F + torch.cat([first, log_i - F], -1).cummax(-1).values[..., 1:]
    constant_m = m.detach()
    previous_m = torch.cat([first.detach(), constant_m[..., :-1]], -1)
    return Stabilized(log_f + (previous_m - constant_m), (log_i - constant_m).exp(), m)


def price(rows: int, H: int) -> Cost:
    """The price of `rows` tokens in H heads."""
    n = rows * H
    return Cost(add=6 * n, exp=n, other=n, path=("addition", "other", "addition", "exponentiation"))
