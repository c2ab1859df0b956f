"""Taps as sums of fading waves: from L numbers a channel to N poles, that is, to a state of N complex numbers.

    ŵ_k = d [k=0] + 2 Re Σ_n c_n λ_n^k,   |λ_n| < 1,   so that Σ_{k<L} (w_k - ŵ_k)² + beyond Σ_{k≥L} ŵ_k² is small

The taps w end at lag L; what poles leave there is counted by `beyond`, 1 for what a stream reads without end. Each
channel is fitted by itself, in float64: poles to begin with from three methods (`starts`), weights by least squares,
both together by Levenberg and Marquardt's steps (`refine`), and the best of the three is kept. Lag 0 is always met.

With `beyond` 0, taps that are such sums of N waves are found again, and L/2 waves meet any taps at all.

Source: the form and the question are Massaroli et al.'s, Laughing Hyena Distillery, arXiv:2310.18780, who descend from
drawn poles; the methods are named where they are. No seed has it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from seqloom.ops.pole_fit import starts
from seqloom.ops.pole_fit.refine import refine
from seqloom.ops.pole_fit.weights import Target, weigh

__all__ = ["Poles", "fit", "largest"]

GLANCE, LOOK = 15, 60
"""steps of refinement from each start, and further ones from the best"""
ROOM = 2**22
"""numbers of a piece of channels that is fitted at once"""


class Poles(NamedTuple):
    """Filters of N complex poles, one a channel."""

    rates: Complex[Tensor, "D N"]
    """ln λ; real parts below 0"""
    weights: Complex[Tensor, "D N"]
    """c; with a conjugate half that is not stored"""
    direct: Float[Tensor, " D"]
    """d"""


def largest(length: int) -> int:
    """The most poles that `fit` takes for so many taps: they meet any, so that more would change nothing."""
    return max(1, length // 2)


def fit(
    taps: Float[Tensor, "L ..."],
    order: int,
    *,
    beyond: float = 1.0,
    advance: Callable[[int], object] = lambda channels: None,
) -> Poles:
    """The poles of taps (L, D), or of (L,) as of one channel; in float64.

    `advance` is told of each channel that is done. ValueError for no taps, taps that are not finite, and an order below
    1 or above `largest`.
    """
    if taps.ndim not in (1, 2) or taps.numel() == 0:
        raise ValueError(f"poles are fitted to taps (L, D) or (L,), not to {tuple(taps.shape)}")
    if not 1 <= order <= largest(len(taps)):
        raise ValueError(f"{len(taps)} taps are fitted by 1 … {largest(len(taps))} poles, not by {order}")
    w = taps.detach().double().reshape(len(taps), -1).T.contiguous()
    if not w.isfinite().all():
        raise ValueError("the taps are not all finite, so no poles can be fitted to them")
    done = []
    for piece in w.split(max(1, ROOM // (8 * order * max(len(taps), 8 * order)))):
        done.append(_fitted(piece, order, beyond))
        advance(len(piece))
    return Poles(*(torch.cat(part) for part in zip(*done, strict=True)))


def _fitted(w: Tensor, order: int, beyond: float) -> Poles:
    if w.shape[1] == 1:
        nothing = torch.zeros(len(w), order, dtype=torch.complex128)
        return Poles(nothing - 1, nothing, w[:, 0])
    loud = w.norm(dim=1, keepdim=True)
    loud = torch.where(loud > 0, loud, 1.0)
    target = Target.of(w / loud, beyond)
    fits = [refine(*start(target, order), target, GLANCE) for start in starts.ALL]
    cost = torch.stack([fit.cost for fit in fits])
    rates = torch.stack([fit.rates for fit in fits])[cost.argmin(0), torch.arange(len(w))]
    target = target.held(cost.amin(0))
    rates, _, cost = refine(rates, weigh(rates, target), target, LOOK)
    weights = weigh(rates, target.held(cost))
    silent = (w[:, 1:] == 0).all(1)
    weights = torch.where(silent[:, None], 0.0, weights * loud)
    return Poles(rates, weights, w[:, 0] - 2 * weights.real.sum(1))
