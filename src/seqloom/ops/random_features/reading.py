"""The average that a query reads from decaying sums: a sum of values divided by the same sum with values of 1.

    S_t = e^{g_t} S_{t-1} + w_t φ(k_t)ᵀ v_t,   z_t = e^{g_t} z_{t-1} + w_t φ(k_t)
    y_t = φ(q_t) S_t / max(φ(q_t)·z_t, least_t)                                     z is kept as a column of S

With features of any sign φ(q)·z may be near 0 or negative, although the kernel that they estimate is positive. `least`
is a lower bound of the normalizer, in proportion to the total weight in z: `sum_gates` and `count_tokens` use a tenth
of it, so that a common factor of all weights does not change y.

Source: Peng et al., arXiv:2103.02143, Eq. 4-7. What differs: they divide by φ(q)·z without a lower bound.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.core.shapes import Lengths
from seqloom.ops.linear_decay import decay_with_normalizer
from seqloom.ops.linear_decay.total import total
from seqloom.ops.linear_decay.weighted import quotient
from seqloom.ops.past.pack import within
from seqloom.ops.random_features.features import exact

SHARE = 0.1
"""the lower bound of the normalizer, as a share of the total weight in z"""
SMALLEST = 1e-25
"""the lower bound of any normalizer: its inverse times a large gradient does not overflow float32"""


def average(
    q: Float[Tensor, "B H T F"],
    k: Float[Tensor, "B H T F"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"] | None = None,
    state: Float[Tensor, "B H F N"] | None = None,
    weight: Float[Tensor, "B H T"] | None = None,
    least: Float[Tensor, "..."] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H F N"]]:
    """The outputs y in the dtype of the features q, and S with z as its last column, N = V + 1.

    `log_decay` is g and `state` the S before, both as in `seqloom.ops.linear_decay`; `weight` is w, None for 1. `least`
    broadcasts to (B, H, T). With `lengths` (B,) a row has that many tokens, then padding, where g must be 0. A
    normalizer below 1e-25 is replaced by 1e-25, so that y goes to 0.
    """
    v = v.to(q.dtype)
    if lengths is not None:
        real = within(lengths, k.shape[2])[:, None, :, None]
        k, v = torch.where(real, k, 0.0), torch.where(real, v, 0.0)
    s, z, new_state = decay_with_normalizer(q, k, v, log_decay, state, weight=weight)
    z = z if least is None else torch.maximum(z, least)
    return quotient(s, z.clamp_min(SMALLEST)), new_state


def whole(
    q: Float[Tensor, "B H T F"],
    k: Float[Tensor, "B H T F"],
    v: Float[Tensor, "B H T V"],
    least: Float[Tensor, "..."] | None = None,
    *,
    lengths: Lengths | None = None,
) -> Float[Tensor, "B H T V"]:
    """The outputs of queries that read all tokens of their row, by one sum S without decay or weights."""
    v = v.to(q.dtype)
    ones = torch.ones_like(v[..., :1])
    sums = total(q, k, torch.cat([v, ones], -1), lengths)
    z = sums[..., -1:] if least is None else torch.maximum(sums[..., -1:], least)
    return sums[..., :-1] / z.clamp_min(SMALLEST)


def sum_gates(
    a: Float[Tensor, "B H T"], log_kept: Float[Tensor, "B H"] | None = None, *, lengths: Lengths | None = None
) -> tuple[Float[Tensor, "B H T"], Float[Tensor, "B H T"], Float[Tensor, "B H T"], Float[Tensor, "B H"]]:
    """For gates g = sigmoid(a): log g, the weights 1 - g, their `least`, and the sum of log g so far.

    `log_kept` is that sum before the first token, None for 0. The weights w_j g_{j+1} ⋯ g_t of all tokens so far add up
    to 1 - g_1 ⋯ g_t, which is computed without cancellation, so that gates near 1 are exact. In the padding after
    `lengths` the gate is 1, and `average` ignores the weight.
    """
    negative = exact(-a)
    log_g = -softplus(negative)
    weight = negative.sigmoid()  # 1 - g
    if lengths is not None:
        log_g = torch.where(within(lengths, log_g.shape[2])[:, None], log_g, 0.0)
    before = log_g.new_zeros(*log_g.shape[:2], 1) if log_kept is None else log_kept[..., None].to(log_g.dtype)
    sums = torch.cat([before, log_g], -1).cumsum(-1)
    return log_g, weight, torch.expm1(sums[..., 1:]) * -SHARE, sums[..., -1].clone()


def count_tokens(q: Float[Tensor, "B H T F"], length: Int[Tensor, " B"] | None = None) -> Float[Tensor, "_ 1 T"]:
    """`least` for weights of 1, for queries q in rows that have read `length` tokens before."""
    positions = torch.arange(1, q.shape[2] + 1, device=q.device)[None, None]
    return (positions if length is None else positions + length[:, None, None]).to(q.dtype) * SHARE
