"""Fits taps by sums of decaying complex exponentials: from L taps per channel to N poles, a state of N complex numbers.

    ŵ_k = d [k=0] + 2 Re Σ_n c_n λ_n^k,   |λ_n| < 1,   so that Σ_{k<L} (w_k - ŵ_k)² + beyond Σ_{k≥L} ŵ_k² is small

The taps w end at lag L; the weight of the error beyond is `beyond`, 1 for a stream without end. Each channel is fitted
separately, in float64: initial poles come from three methods (`starts`), weights from least squares, both are refined
by the Levenberg-Marquardt method (`refine`), and the best of the three fits is returned. Lag 0 is always exact.

With `beyond` 0, taps that are a sum of N exponentials are recovered, and L/2 poles fit any taps.

Source: the form and the problem are from Massaroli et al., Laughing Hyena Distillery, arXiv:2310.18780, who use
gradient descent from random poles; the sources of the methods are in their files. No seed has it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from seqloom.ops.state_space.diagonal_states import kernel
from seqloom.ops.state_space.pole_fit import starts
from seqloom.ops.state_space.pole_fit.refine import refine
from seqloom.ops.state_space.pole_fit.weights import Target, fit_weights

__all__ = ["Poles", "bound", "fit", "largest", "response"]

FIRST_STEPS, LAST_STEPS = 15, 60
"""steps of refinement from each start, and further steps from the best result"""
ROOM = 2**22
"""numbers in memory for the channels that are fitted at once"""
TERMWISE = 8
"""lags, in multiples of L, up to which `bound` sums term by term"""


class Poles(NamedTuple):
    """A filter with N complex poles for each channel."""

    rates: Complex[Tensor, "D N"]
    """ln λ; real parts below 0"""
    weights: Complex[Tensor, "D N"]
    """c; the conjugate half is not stored"""
    direct: Float[Tensor, " D"]
    """d"""


def largest(length: int) -> int:
    """The most poles that `fit` accepts for `length` taps; they fit any taps exactly."""
    return max(1, length // 2)


def fit(
    taps: Float[Tensor, "L ..."],
    order: int,
    *,
    beyond: float = 1.0,
    advance: Callable[[int], object] = lambda channels: None,
) -> Poles:
    """The poles for taps (L, D), or (L,) as one channel, in float64.

    `advance` is called with the number of channels that are done. ValueError for no taps, taps that are not finite, and
    an order below 1 or above `largest`.
    """
    if taps.ndim not in (1, 2) or taps.numel() == 0:
        raise ValueError(f"poles are fitted to taps (L, D) or (L,), not to {tuple(taps.shape)}")
    if not 1 <= order <= largest(len(taps)):
        raise ValueError(f"{len(taps)} taps are fitted by 1 … {largest(len(taps))} poles, not by {order}")
    w = taps.detach().double().reshape(len(taps), -1).T.contiguous()
    if not w.isfinite().all():
        raise ValueError("the taps are not all finite, so no poles can be fitted to them")
    fits = []
    for piece in w.split(max(1, ROOM // (8 * order * max(len(taps), 8 * order)))):
        fits.append(_fit_poles(piece, order, beyond))
        advance(len(piece))
    return Poles(*(torch.cat(part) for part in zip(*fits, strict=True)))


def _fit_poles(w: Tensor, order: int, beyond: float) -> Poles:
    """The poles of the channels w (D, L), each normalized to norm 1 for the fit."""
    if w.shape[1] == 1:  # d alone is the filter
        zeros = torch.zeros(len(w), order, dtype=torch.complex128)
        return Poles(zeros - 1, zeros, w[:, 0])
    norm = w.norm(dim=1, keepdim=True)
    norm = torch.where(norm > 0, norm, 1.0)
    target = Target.of(w / norm, beyond)
    fits = [refine(*start(target, order), target, FIRST_STEPS) for start in starts.ALL]
    costs = torch.stack([fit.cost for fit in fits])
    best = costs.argmin(0)
    rates = torch.stack([fit.rates for fit in fits])[best, torch.arange(len(w))]
    target = target.with_ridge(costs.amin(0))
    rates, _, cost = refine(rates, fit_weights(rates, target), target, LAST_STEPS)
    weights = fit_weights(rates, target.with_ridge(cost))
    no_lags = (w[:, 1:] == 0).all(1)  # channels whose taps are 0 from lag 1 on
    weights = torch.where(no_lags[:, None], 0.0, weights * norm)
    return Poles(rates, weights, w[:, 0] - 2 * weights.real.sum(1))


def response(poles: Poles, count: int) -> Float[Tensor, "K D"]:
    """ŵ of the first `count` lags."""
    w = kernel(poles.rates, poles.weights, count)
    w[:1] += poles.direct
    return w


def bound(taps: Float[Tensor, "L D"], poles: Poles) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
    """The bound of the error of the lag sum where poles replace taps: both sums of each channel, in float64.

        |e_t - ê_t| ≤ max|z| · (Σ_{k<L} |w_k - ŵ_k| + Σ_{k≥L} |ŵ_k|)

    It holds for any inputs z, and is attained by inputs of ±1 with the signs of the errors. The sums are those inside
    the window and beyond it. The second is computed term by term up to lag 8L; the rest is bounded by
    2 Σ_n |c_n| |λ_n|^{8L} / (1 - |λ_n|).
    """
    poles = Poles(poles.rates.to(torch.complex128), poles.weights.to(torch.complex128), poles.direct.double())
    L = len(taps)
    w = response(poles, TERMWISE * L)
    decay = poles.rates.real
    remainder = 2 * (poles.weights.abs() * torch.exp(TERMWISE * L * decay) / -torch.expm1(decay)).sum(1)
    return (taps.double() - w[:L]).abs().sum(0), w[L:].abs().sum(0) + remainder
