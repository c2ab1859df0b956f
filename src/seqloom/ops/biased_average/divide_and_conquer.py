"""The biased average by divide and conquer: stable for keys of any size, and exactly causal.

With M_t the largest key up to t and r_t the largest bias of query t, no term e^{(k_j - M_t) + (b - r_t)} is above 1.
One matrix product for all queries would need one maximum for all, and a large late key would make the terms of earlier
queries underflow. So the sequence is divided into halves, quarters, …:

    the right half reads its left half in one product:  e^{M_S - M_t} Σ_{j in left} e^{b - r_t} e^{k_j - M_S} (v_j, 1)
    M_S is the largest key of the left half, which comes before all queries of the right half: M_S ≤ M_t
    in a leaf, of at most 7 tokens, the terms are added lag by lag, with M_t itself
    the past is read as one more left half, the total as one more token with the bias 0

An earlier output is computed from no later key. The largest key, M_t, is one of the terms, so the denominator is at
least e^{-R}, where R is the range of the query's biases, and what underflows is below a share of e^{R-87} (float32).
bfloat16 is computed in float32. Maxima have no gradient, since the average does not depend on them.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.biased_average.total import Past, Total, counted, lowest, weighed

LEAF = 4
Read: TypeAlias = Callable[[Tensor, int], Tensor]
"""(weighted values of blocks (B, n, S, K, V), N) → sums with e^{b - r} at the N positions after (B, n, N, K, V)"""
Reader: TypeAlias = Callable[[Tensor, Tensor, int, int], tuple[Read, Read]]
"""(b - r (#B, #T, L, #K), -r (#B, #T, #K), T, tokens of the past) → functions that read the past and a left half"""


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None, reader: Reader) -> Tensor:
    """`seqloom.ops.biased_average.average` by divide and conquer; `reader` sums a block of tokens under its biases."""
    kind, dtype = torch.promote_types(v.dtype, torch.float32), v.dtype
    T, past_tokens = k.shape[1], 0 if past is None else past[0].shape[1]
    levels = max(0, (T // LEAF).bit_length() - 1)
    leaf = -(-T // 2**levels)
    padding = (leaf << levels) - T  # padding after the real positions
    b, floor = _below_largest(bias.to(kind), total is not None or bias.shape[2] < past_tokens + T, padding)
    k, v = (pad(x.to(kind), (0, 0, 0, padding)) for x in (k, v))
    read_past, read_left = reader(b, floor, T + padding, past_tokens)
    top, u = k.detach().cummax(1).values, counted(v, k.shape[2])

    if past is not None and past_tokens:
        past_keys = past[0].to(kind)
        peak = past_keys.detach().amax(1, keepdim=True).clamp(min=lowest(kind))
        top = torch.maximum(top, peak)
    if total is not None:
        peak_beyond = total.floor()[:, None].to(kind)
        top = torch.maximum(top, peak_beyond)

    sums = _leaves(k, u, top, b, floor, leaf)
    for level in range(levels):
        sums = sums + _across(k, u, top, leaf << level, read_left)
    if past is not None and past_tokens:
        read = read_past(weighed(past_keys, past[1].to(kind), peak)[:, None], T + padding)[:, 0]
        sums = sums + read * (peak - top).exp()[..., None]
    if total is not None:
        sums = sums + total.sums[:, None].to(kind) * ((peak_beyond - top) + floor).exp()[..., None]
    sums = sums[:, :T]
    return (sums[..., :-1] / sums[..., -1:]).flatten(2).to(dtype)


def _below_largest(bias: Tensor, beyond: bool, more: int) -> tuple[Tensor, Tensor]:
    """b - r and -r, for r the largest bias of each query: (#B, #T, L, #K), (#B, #T, #K); with `more` positions."""
    largest = bias.detach().amax(2)
    if beyond:
        largest = largest.clamp(min=0)
    b, floor = bias - largest[:, :, None], -largest
    if b.shape[1] > 1:
        b, floor = pad(b, (0, 0, 0, 0, 0, more)), pad(floor, (0, 0, 0, more))
    return b, floor


def _leaves(k: Tensor, u: Tensor, top: Tensor, b: Tensor, floor: Tensor, leaf: int) -> Tensor:
    """The sums over the tokens of a position's own leaf (B, T, K, V), lag by lag."""
    k, u, top = (x.unflatten(1, (-1, leaf)) for x in (k, u, top))
    sums = torch.zeros_like(u)
    for lag in range(leaf):
        bias = b[:, :, lag] if lag < b.shape[2] else floor
        bias_at_lag = bias.unflatten(1, (-1, leaf))[:, :, lag:] if bias.shape[1] > 1 else bias[:, :, None]
        e = ((k[:, :, : leaf - lag] - top[:, :, lag:]) + bias_at_lag).exp()
        sums = sums + pad(e[..., None] * u[:, :, : leaf - lag], (0, 0, 0, 0, lag, 0))
    return sums.flatten(1, 2)


def _across(k: Tensor, u: Tensor, top: Tensor, size: int, read: Read) -> Tensor:
    """For blocks of 2·`size` positions, the sums over the left half at positions of the right half; 0 in the left."""
    k, u, top = (x.unflatten(1, (-1, 2, size)) for x in (k, u, top))
    peak = k[:, :, 0].detach().amax(2, keepdim=True)
    e = (k[:, :, 0] - peak).exp()[..., None] * u[:, :, 0]
    sums = read(e, size) * (peak - top[:, :, 1]).exp()[..., None]
    return pad(sums, (0, 0, 0, 0, size, 0)).flatten(1, 2)
