"""How far the sum over lags can be off when poles stand for taps, whatever is read.

    |e_t - ê_t| ≤ max|z| · (Σ_{k<L} |w_k - ŵ_k| + Σ_{k≥L} |ŵ_k|)

The first sum is reached, by inputs of ±1 with the signs of what is off; so is the second up to what is not summed
term by term: from 8L on it is at most 2 Σ_n |c_n| |λ_n|^{8L} / (1 - |λ_n|).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.ops.diagonal_states import kernel
from seqloom.ops.pole_fit import Poles

FAR = 8
"""windows that are summed term by term"""


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
