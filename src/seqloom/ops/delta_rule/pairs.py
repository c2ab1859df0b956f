"""The products of the tokens of a chunk with earlier ones, where every channel of the keys has its own decay.

    A_ij = Σ_c x_i[c] z_j[c] e^{g_{j+1}[c] + … + g_i[c]}     j ≤ i, for x = q        0 elsewhere
    M_ij = Σ_c x_i[c] z_j[c] e^{g_{j+1}[c] + … + g_{i-1}[c]}  j < i, for x = erase, which reads before the decay

They are computed by divide and conquer. From the first half of a block to its second half, the exponential is the
product of one factor up to the middle and one from the middle on, so both halves are scaled and multiplied as matrices;
then the same inside each half. This takes K log C exponentials per token instead of C K. Every exponent is a sum of
some of the g, never a difference of two sums: with g ≤ 0 nothing overflows, and a strong decay underflows to 0.

Source: ours; in Yang et al., arXiv:2312.06635, section 4.3, the starts of sub-chunks play the role of the middle.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

LOWEST = -1e30
"""a lower bound for g: its exponential is 0, and sums of it are finite"""


class Pairs(NamedTuple):
    """The matrices of chunks of C tokens, and sums of g within a chunk, (…, C, K)."""

    products: Tensor
    """(…, X, Z, C, C): for each x, q first, and each z"""
    before: Tensor
    """up to the token, without its own: g_1 + … + g_{i-1}"""
    since: Tensor
    """up to the token, with its own: g_1 + … + g_i"""
    until: Tensor
    """after the token: g_{j+1} + … + g_C"""


def pairs(q: Tensor, erase: list[Tensor], written: list[Tensor], g: Tensor) -> Pairs:
    """The pairs of q and `erase` (x) with `written` (z) under g, all (…, C, K), C a power of 2."""
    C, s = g.shape[-2], 1
    since = g.clamp(min=LOWEST)[..., None, :]  # (…, n, s, K): n blocks of s tokens
    before, until = torch.zeros_like(since), torch.zeros_like(since)
    # blocks of one token: q z, and 0 for erase, which does not read what its own token writes
    q_products = torch.stack([(q * z).sum(-1) for z in written], -1)[..., None, :]
    products = pad(q_products, (0, 0, 0, len(erase)))[..., None, None]  # (…, n, X, Z, s, s)
    while s < C:
        (before, later_before), (since, later), (until, later_until) = (_halves(x, -3) for x in (before, since, until))
        # the second half of each block reads the first: decays from the middle on, times decays up to the middle
        readers = [_second(q, s) * later.exp(), *(_second(x, s) * later_before.exp() for x in erase)]
        decay_until = until.exp()
        across = torch.cat(readers, -2) @ torch.cat([_first(z, s) * decay_until for z in written], -2).mT
        across = across.unflatten(-1, (len(written), s)).unflatten(-3, (len(readers), s)).transpose(-3, -2)
        first_products, second_products = _halves(products, -5)
        upper = torch.cat([first_products, torch.zeros_like(first_products)], -1)
        lower = torch.cat([across, second_products], -1)
        products = torch.cat([upper, lower], -2)
        first_sum, second_sum = since[..., -1:, :], later[..., -1:, :]
        before = torch.cat([before, later_before + first_sum], -2)
        since = torch.cat([since, later + first_sum], -2)
        until = torch.cat([until + second_sum, later_until], -2)
        s *= 2
    return Pairs(*(x.squeeze(axis) for x, axis in ((products, -5), (before, -3), (since, -3), (until, -3))))


def _halves(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The first and the second block of each pair of consecutive blocks along the axis."""
    first, second = x.unflatten(axis, (-1, 2)).unbind(axis)
    return first, second


def _first(x: Tensor, s: int) -> Tensor:
    """The first s of every 2 s tokens of x (…, C, K): (…, n, s, K)."""
    return x.unflatten(-2, (-1, 2, s))[..., 0, :, :]


def _second(x: Tensor, s: int) -> Tensor:
    """The second s of every 2 s tokens of x (…, C, K): (…, n, s, K)."""
    return x.unflatten(-2, (-1, 2, s))[..., 1, :, :]
