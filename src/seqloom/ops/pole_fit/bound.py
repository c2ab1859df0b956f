"""A bound of the error of the lag sum where poles replace taps, for any inputs z.

    |e_t - ê_t| ≤ max|z| · (Σ_{k<L} |w_k - ŵ_k| + Σ_{k≥L} |ŵ_k|)

The bound is attained by inputs of ±1 with the signs of the errors. The second sum is computed term by term up to lag
8L; the rest is bounded by 2 Σ_n |c_n| |λ_n|^{8L} / (1 - |λ_n|).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.ops.diagonal_states import kernel
from seqloom.ops.pole_fit import Poles

FAR = 8
"""lags, in multiples of L, that are summed term by term"""


def response(poles: Poles, count: int) -> Float[Tensor, "K D"]:
    """ŵ of the first `count` lags."""
    w = kernel(poles.rates, poles.weights, count)
    w[:1] += poles.direct
    return w


def bound(taps: Float[Tensor, "L D"], poles: Poles) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
    """Both sums of each channel, in float64 whatever the dtypes: inside the window, and beyond it."""
    poles = Poles(poles.rates.to(torch.complex128), poles.weights.to(torch.complex128), poles.direct.double())
    L = len(taps)
    w = response(poles, FAR * L)
    fading = poles.rates.real
    rest = 2 * (poles.weights.abs() * torch.exp(FAR * L * fading) / -torch.expm1(fading)).sum(1)
    return (taps.double() - w[:L]).abs().sum(0), w[L:].abs().sum(0) + rest
