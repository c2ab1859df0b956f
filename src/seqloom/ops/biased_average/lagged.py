"""The biased average by lag sums, for biases that are the same at every position: no matrix, any length.

A right half (see `divide_and_conquer`) reads its left half in two parts: within the window as a lag sum of
e^{k - M_S} (v, 1) with the taps e^{b - r}, and beyond the window as a running sum of the same numbers. Both are sums
with positive weights, so nothing cancels; rounding by a Fourier transform affects only the right half.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.biased_average import divide_and_conquer
from seqloom.ops.biased_average.total import Past, Total
from seqloom.ops.lag_sum import lags


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None) -> Tensor:
    """See `seqloom.ops.biased_average.average`."""
    return divide_and_conquer.average(k, v, bias, past, total, _reader)


def _reader(
    b: Tensor, zero_bias: Tensor, positions: int, past_tokens: int
) -> tuple[divide_and_conquer.Read, divide_and_conquer.Read]:
    taps, tap_beyond = b[0, 0].exp(), zero_bias[0, 0].exp()  # (L, #K), (#K)

    def read(e: Tensor, count: int) -> Tensor:
        return _window(e, taps, count) + _beyond(e, len(taps), count) * tap_beyond[:, None]

    return read, read


def _window(e: Tensor, taps: Tensor, count: int) -> Tensor:
    """The lag sum of blocks (B, n, S, K, V) at the `count` positions after each.

    Only the last L-1 tokens contribute.
    """
    L, (K, V) = len(taps), e.shape[3:]
    inputs = min(e.shape[2], L - 1)
    outputs = min(count, L - 1)
    if inputs == 0:
        return e.new_zeros(*e.shape[:2], count, K, V)
    x = pad(e[:, :, -inputs:].flatten(3).flatten(0, 1), (0, 0, 0, outputs))
    channel_taps = taps.expand(-1, K).repeat_interleave(V, 1)
    y = lags(x, channel_taps[: inputs + outputs])[:, inputs:]
    return pad(y, (0, 0, 0, count - outputs)).unflatten(0, e.shape[:2]).unflatten(3, (K, V))


def _beyond(e: Tensor, L: int, count: int) -> Tensor:
    """At each of the `count` positions after a block, the sum over the block's tokens that are L or more before it."""
    S = e.shape[2]
    if S + count <= L:
        return e.new_zeros(*e.shape[:2], count, *e.shape[3:])
    running_sums = pad(e.cumsum(2), (0, 0, 0, 0, 1, 0))
    tokens_beyond = (S + torch.arange(count, device=e.device) - L + 1).clamp(0, S)
    return running_sums[:, :, tokens_beyond]
