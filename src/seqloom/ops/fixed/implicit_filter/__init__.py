"""Implicit filters: a small network computes the taps from their lag, and a window lets them decay.

    h_t = (e^{-α t'} + floor) ∘ FFN([t', cos θ_0 … cos θ_{K-1}, sin θ_0 … sin θ_{K-1}]),    t = 0 … L-1,  L = `context`
    t' = t/(L-1),   θ_k = 2π k t/L,   FFN: linear layers (the last without bias) with sin(ω ∘ ·) between them
    α_c = ln 100 (1/slow + c/(D-1) (1/fast - 1/slow))                                       c = 0 … D-1

So the exponential of a channel falls to 1/100 after a share of the L taps that goes from `slow` in the first channel to
`fast` in the last. All filters share the window and the network, except for their rows of the last matrix.

Source: Poli et al., Hyena, arXiv:2302.10866, section 3.3, with FFN depth, width, ω and α of the authors' code. What
differs: the authors' encoding is e^{-iθ}, with frequencies spread over 10^-4 … K-1, and is learned, at a low rate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear

from seqloom.core.autocast import without_autocast
from seqloom.core.cost import Cost, Span
from seqloom.core.cost import linear as linear_price

Layers: TypeAlias = Sequence[tuple[Tensor, Tensor | None]]
"""the matrices (outputs, inputs) of the network in order, each with its bias if it has one"""


@dataclass(frozen=True)
class Shape:
    """The settings of the filters, which are not learned."""

    context: int
    """taps, L"""
    features: int
    """frequencies of the encoding, K"""
    slow: float
    """share of the taps after which the slowest channel's window is 1/100"""
    fast: float
    """share of the taps after which the fastest channel's window is 1/100"""
    floor: float
    """a constant that is added to the window's exponential, so that the last taps are not 0"""


def filters(
    shape: Shape, layers: Layers, frequency: Float[Tensor, " F"], dim: int, first: int, last: int
) -> Float[Tensor, "N M D"]:
    """The taps `first` … `last` - 1 of N filters over `dim` channels; the network gives N·D numbers per tap.

    They are computed in float64, also under autocast, and returned in float32 or better: each sine multiplies the error
    of its input by ω, initially 14, so three sines multiply the rounding error by more than a thousand.
    """
    with without_autocast(frequency.device):
        t = torch.arange(first, last, dtype=torch.float64, device=frequency.device)[:, None]
        relative_t = t / max(shape.context - 1, 1)  # t'
        theta = t * _evenly_spaced(0.0, 2 * math.pi * (shape.features - 1) / shape.context, shape.features, t)
        h = torch.cat([relative_t, theta.cos(), theta.sin()], 1)
        for index, (weight, bias) in enumerate(layers):
            if index:
                h = torch.sin(frequency.double() * h)
            h = linear(h, weight.double(), None if bias is None else bias.double())
        minus_alpha = _evenly_spaced(-math.log(100) / shape.slow, -math.log(100) / shape.fast, dim, t)
        window = torch.exp(relative_t * minus_alpha) + shape.floor
        taps = (h.unflatten(1, (-1, dim)) * window[:, None]).transpose(0, 1)
    return taps.to(torch.promote_types(frequency.dtype, torch.float32))


def price(span: Span, context: int, dim: int, count: int, sizes: list[int]) -> Cost:
    """The taps of `count` filters over `dim` channels that these tokens are the first to need.

    A tap is computed once, when a sequence first becomes long enough to need it. `sizes` are the widths of the network:
    its encoding of the lag, its hidden layers, and `count` · `dim`. The bias of the first tap is part of the price.
    """
    new = min(span.T, context) if span.per == "sequence" else int(context >= span.T)  # taps
    encoding, *hidden, outputs = sizes
    layers = [linear_price(new, *pair, bias=True) for pair in pairwise([encoding, *hidden])]
    network = sum(layers, linear_price(new, hidden[-1], outputs))
    sines = sum(hidden)
    return Cost(
        mul=network.mul + new * (encoding // 2 + sines + dim + count * dim),
        add=network.add + new * dim + span.first * count * dim,
        div=new,
        exp=new * dim,
        other=new * (encoding - 1 + sines),
    )


def _evenly_spaced(first: float, last: float, count: int, like: Tensor) -> Tensor:
    return torch.linspace(first, last, count, dtype=like.dtype, device=like.device)
