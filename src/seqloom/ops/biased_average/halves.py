"""The biased average cut in halves, stable for keys of any size and exactly causal.

With M_t the largest key up to t and r_t the largest bias of query t, no term e^{(k_j - M_t) + (b - r_t)} is above 1.
One product for all queries would need one maximum for all of them, and a large late key would wipe out what the
earlier ones read. So the sum is cut in halves, quarters, …:

    a right half reads its left half at once:  e^{M_S - M_t} Σ_{j in left} e^{b - r_t} e^{k_j - M_S} (v_j, 1)
    M_S is the largest key of the left half, which all of the right half has seen: M_S ≤ M_t
    inside a leaf, at most 7 tokens long, each lag is a term of its own, with M_t itself
    the past is one more left half, and the total one more token with the bias 0

A later key is in no number that an earlier output is made of. The key M_t is among the terms, so the denominator is at
least e^{-R}, where R is the range of the query's biases, and what is lost to underflow is below e^{R-87} (float32) of
the whole. bfloat16 is computed in float32. Maxima carry no gradient, as the average does not depend on them.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.biased_average.total import Past, Total, counted, lowest, weighed

LEAF = 4
Read: TypeAlias = Callable[[Tensor, int], Tensor]
"""(weighed tokens (B, n, S, K, V), N) → their sums with e^{b - r} at the N positions after a block (B, n, N, K, V)"""
Reader: TypeAlias = Callable[[Tensor, Tensor, int, int], tuple[Read, Read]]
"""(b - r (#B, #T, L, #K), -r (#B, #T, #K), positions, those before them) → how the past is read, how a left half is"""


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None, reader: Reader) -> Tensor:
    """`seqloom.ops.biased_average.average` by divide and conquer; `reader` sums a block of tokens under its biases."""
    kind, given = torch.promote_types(v.dtype, torch.float32), v.dtype
    T, before = k.shape[1], 0 if past is None else past[0].shape[1]
    levels = max(0, (T // LEAF).bit_length() - 1)
    leaf = -(-T // 2**levels)
    more = (leaf << levels) - T  # padding after the real positions
    b, floor = _below_largest(bias.to(kind), total is not None or bias.shape[2] < before + T, more)
    k, v = (pad(x.to(kind), (0, 0, 0, more)) for x in (k, v))
    read_past, read_left = reader(b, floor, T + more, before)
    top, u = k.detach().cummax(1).values, counted(v, k.shape[2])

    if past is not None and before:
        held = past[0].to(kind)
        peak = held.detach().amax(1, keepdim=True).clamp(min=lowest(kind))
        top = torch.maximum(top, peak)
    if total is not None:
        peak_beyond = total.floor()[:, None].to(kind)
        top = torch.maximum(top, peak_beyond)

    sums = _leaves(k, u, top, b, floor, leaf)
    for level in range(levels):
        sums = sums + _across(k, u, top, leaf << level, read_left)
    if past is not None and before:
        read = read_past(weighed(held, past[1].to(kind), peak)[:, None], T + more)[:, 0]
        sums = sums + read * (peak - top).exp()[..., None]
    if total is not None:
        sums = sums + total.sums[:, None].to(kind) * ((peak_beyond - top) + floor).exp()[..., None]
    sums = sums[:, :T]
    return (sums[..., :-1] / sums[..., -1:]).flatten(2).to(given)


def _below_largest(bias: Tensor, beyond: bool, more: int) -> tuple[Tensor, Tensor]:
    """The biases less the largest of their query, and 0 less it: (#B, #T, L, #K), (#B, #T, #K)."""
    largest = bias.detach().amax(2)
    if beyond:
        largest = largest.clamp(min=0)
    b, floor = bias - largest[:, :, None], -largest
    if b.shape[1] > 1:
        b, floor = pad(b, (0, 0, 0, 0, 0, more)), pad(floor, (0, 0, 0, more))
    return b, floor


def _leaves(k: Tensor, u: Tensor, top: Tensor, b: Tensor, floor: Tensor, leaf: int) -> Tensor:
    """What each position reads inside its own leaf (B, T, K, V), lag by lag."""
    k, u, top = (x.unflatten(1, (-1, leaf)) for x in (k, u, top))
    sums = torch.zeros_like(u)
    for lag in range(leaf):
        bias = b[:, :, lag] if lag < b.shape[2] else floor
        here = bias.unflatten(1, (-1, leaf))[:, :, lag:] if bias.shape[1] > 1 else bias[:, :, None]
        e = ((k[:, :, : leaf - lag] - top[:, :, lag:]) + here).exp()
        sums = sums + pad(e[..., None] * u[:, :, : leaf - lag], (0, 0, 0, 0, lag, 0))
    return sums.flatten(1, 2)


def _across(k: Tensor, u: Tensor, top: Tensor, size: int, read: Read) -> Tensor:
    """What each right half of 2·`size` positions reads in its left half (B, T, K, V); 0 in left halves."""
    k, u, top = (x.unflatten(1, (-1, 2, size)) for x in (k, u, top))
    peak = k[:, :, 0].detach().amax(2, keepdim=True)
    e = (k[:, :, 0] - peak).exp()[..., None] * u[:, :, 0]
    sums = read(e, size) * (peak - top[:, :, 1]).exp()[..., None]
    return pad(sums, (0, 0, 0, 0, size, 0)).flatten(1, 2)
