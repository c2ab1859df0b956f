"""What a query reads from the decaying sum: an average, divided by what the same sum has for values that are all 1.

    S_t = e^{g_t} S_{t-1} + w_t φ(k_t)ᵀ v_t,   z_t = e^{g_t} z_{t-1} + w_t φ(k_t)
    y_t = φ(q_t) S_t / max(φ(q_t)·z_t, least_t)                                     z is kept as a column of S

Features of any sign can have φ(q)·z near 0 or below, although the kernel they estimate is positive. `least` keeps such
sums away from 0, in proportion to the weight that z holds: `gated` and `counted` give a tenth of it, so that no factor
that all weights have in common changes y.

Source: Peng et al., arXiv:2103.02143, Eq. 4-7, which divides by φ(q)·z as it is.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.core.shapes import Lengths
from seqloom.ops.linear_decay import normalised
from seqloom.ops.linear_decay.quotient import quotient
from seqloom.ops.linear_decay.total import total
from seqloom.ops.pack import within
from seqloom.ops.random_features.features import exact

SHARE = 0.1
"""of the weight that z holds: what the normaliser is at least"""
SMALLEST = 1e-25
"""what any normaliser is at least: one over it, times a large gradient, is still a float32"""


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
    spreads to (B, H, T). With `lengths` (B,) a row holds so many tokens, then padding, where g must be 0. A normaliser
    below 1e-25 is taken for 1e-25, so that y fades to 0.
    """
    v = v.to(q.dtype)
    if lengths is not None:
        real = within(lengths, k.shape[2])[:, None, :, None]
        k, v = torch.where(real, k, 0.0), torch.where(real, v, 0.0)
    s, z, after = normalised(q, k, v, log_decay, state, weight=weight)
    z = z if least is None else torch.maximum(z, least)
    return quotient(s, z.clamp_min(SMALLEST)), after


def whole(
    q: Float[Tensor, "B H T F"],
    k: Float[Tensor, "B H T F"],
    v: Float[Tensor, "B H T V"],
    least: Float[Tensor, "..."] | None = None,
    *,
    lengths: Lengths | None = None,
) -> Float[Tensor, "B H T V"]:
    """The outputs of queries that read all tokens of their row: one sum S for all of them, without decay or weights."""
    v = v.to(q.dtype)
    ones = torch.ones_like(v[..., :1])
    y = total(q, k, torch.cat([v, ones], -1), lengths)
    z = y[..., -1:] if least is None else torch.maximum(y[..., -1:], least)
    return y[..., :-1] / z.clamp_min(SMALLEST)


def gated(
    a: Float[Tensor, "B H T"], log_kept: Float[Tensor, "B H"] | None = None, *, lengths: Lengths | None = None
) -> tuple[Float[Tensor, "B H T"], Float[Tensor, "B H T"], Float[Tensor, "B H T"], Float[Tensor, "B H"]]:
    """For gates sigmoid(a): log g, the weights 1 - g, their `least`, and the sum of log g, `log_kept` before (None: 0).

    The weights w_j g_{j+1} ⋯ g_t of all tokens so far add up to 1 - g_1 ⋯ g_t, formed without the difference, so that
    gates near 1 are told apart. In the padding behind `lengths` the gate is 1, and the weight is for `average` to leave
    out.
    """
    a = exact(-a)
    g = -softplus(a)
    g = g if lengths is None else torch.where(within(lengths, g.shape[2])[:, None], g, 0.0)
    before = g.new_zeros(*g.shape[:2], 1) if log_kept is None else log_kept[..., None].to(g.dtype)
    sums = torch.cat([before, g], -1).cumsum(-1)
    return g, a.sigmoid(), torch.expm1(sums[..., 1:]) * -SHARE, sums[..., -1]


def counted(q: Float[Tensor, "B H T F"], length: Int[Tensor, " B"] | None = None) -> Float[Tensor, "_ 1 T"]:
    """The `least` of weights 1, for queries q of which each row has read `length` tokens before."""
    positions = torch.arange(1, q.shape[2] + 1, device=q.device)[None, None]
    return (positions if length is None else positions + length[:, None, None]).to(q.dtype) * SHARE
