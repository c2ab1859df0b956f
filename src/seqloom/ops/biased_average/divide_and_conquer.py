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

from seqloom.ops.biased_average.total import Past, Total, lowest, weighted_values, with_ones

LEAF = 4
"""the fewest tokens of a leaf"""
Read: TypeAlias = Callable[[Tensor, int], Tensor]
"""(weighted values of blocks (B, n, S, K, V), N) → sums with e^{b - r} at the N positions after (B, n, N, K, V)"""
Reader: TypeAlias = Callable[[Tensor, Tensor, int, int], tuple[Read, Read]]
"""(b - r (#B, #T, L, #K), -r (#B, #T, #K), T, tokens of the past) → functions that read the past, and a left half"""


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None, reader: Reader) -> Tensor:
    """`seqloom.ops.biased_average.average` by divide and conquer; `reader` sums a block of tokens under its biases."""
    dtype = v.dtype
    wide_dtype = torch.promote_types(dtype, torch.float32)
    T = k.shape[1]
    past_tokens = 0 if past is None else past[0].shape[1]
    levels = max(0, (T // LEAF).bit_length() - 1)
    leaf = -(-T // 2**levels)
    padding = (leaf << levels) - T  # positions after the real ones
    reads_beyond = total is not None or bias.shape[2] < past_tokens + T  # beyond the last lag, where the bias is 0
    b, zero_bias = _below_largest(bias.to(wide_dtype), reads_beyond, padding)
    k, v = (pad(x.to(wide_dtype), (0, 0, 0, padding)) for x in (k, v))
    read_past, read_left = reader(b, zero_bias, T + padding, past_tokens)
    u = with_ones(v, k.shape[2])
    largest_key = k.detach().cummax(1).values  # M_t

    if past is not None and past_tokens:
        past_keys = past[0].to(wide_dtype)
        past_peak = past_keys.detach().amax(1, keepdim=True).clamp(min=lowest(wide_dtype))
        largest_key = torch.maximum(largest_key, past_peak)
    if total is not None:
        total_peak = total.floor()[:, None].to(wide_dtype)
        largest_key = torch.maximum(largest_key, total_peak)

    sums = _leaves(k, u, largest_key, b, zero_bias, leaf)
    for level in range(levels):
        sums = sums + _across(k, u, largest_key, leaf << level, read_left)
    if past is not None and past_tokens:
        weighted = weighted_values(past_keys, past[1].to(wide_dtype), past_peak)
        past_sums = read_past(weighted[:, None], T + padding)[:, 0]
        sums = sums + past_sums * (past_peak - largest_key).exp()[..., None]
    if total is not None:
        sums = sums + total.sums[:, None].to(wide_dtype) * ((total_peak - largest_key) + zero_bias).exp()[..., None]
    sums = sums[:, :T]
    return (sums[..., :-1] / sums[..., -1:]).flatten(2).to(dtype)


def _below_largest(bias: Tensor, reads_beyond: bool, padding: int) -> tuple[Tensor, Tensor]:
    """b - r and -r, for r the largest bias of each query: (#B, #T, L, #K), (#B, #T, #K); padded at the last positions.

    If `reads_beyond`, the bias 0 beyond the last lag counts for r.
    """
    largest = bias.detach().amax(2)
    if reads_beyond:
        largest = largest.clamp(min=0)
    b, zero_bias = bias - largest[:, :, None], -largest
    if b.shape[1] > 1:
        b, zero_bias = pad(b, (0, 0, 0, 0, 0, padding)), pad(zero_bias, (0, 0, 0, padding))
    return b, zero_bias


def _leaves(k: Tensor, u: Tensor, largest_key: Tensor, b: Tensor, zero_bias: Tensor, leaf: int) -> Tensor:
    """The sums over the tokens of a position's own leaf (B, T, K, V), lag by lag."""
    k, u, largest_key = (x.unflatten(1, (-1, leaf)) for x in (k, u, largest_key))
    sums = torch.zeros_like(u)
    for lag in range(leaf):
        bias = b[:, :, lag] if lag < b.shape[2] else zero_bias
        bias_at_lag = bias.unflatten(1, (-1, leaf))[:, :, lag:] if bias.shape[1] > 1 else bias[:, :, None]
        e = ((k[:, :, : leaf - lag] - largest_key[:, :, lag:]) + bias_at_lag).exp()
        sums = sums + pad(e[..., None] * u[:, :, : leaf - lag], (0, 0, 0, 0, lag, 0))
    return sums.flatten(1, 2)


def _across(k: Tensor, u: Tensor, largest_key: Tensor, size: int, read: Read) -> Tensor:
    """For blocks of 2·`size` positions, the sums over the left half at positions of the right half; 0 in the left."""
    k, u, largest_key = (x.unflatten(1, (-1, 2, size)) for x in (k, u, largest_key))
    left_peak = k[:, :, 0].detach().amax(2, keepdim=True)  # M_S
    weighted = (k[:, :, 0] - left_peak).exp()[..., None] * u[:, :, 0]
    sums = read(weighted, size) * (left_peak - largest_key[:, :, 1]).exp()[..., None]
    return pad(sums, (0, 0, 0, 0, size, 0)).flatten(1, 2)
