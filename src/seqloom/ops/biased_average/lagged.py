"""The biased average by lag sums, for biases that are the same at every position: no matrix, any length.

A right half reads the window of its left half as a lag sum with the taps e^{b - r} over e^{k - M_S} (v, 1), all of it
under the one maximum M_S that it may know, and what lies beyond the window as a running sum of the same numbers: both
are sums of positive weights, so nothing cancels, and whatever a transform rounds stays within the right half.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.biased_average import halves
from seqloom.ops.biased_average.total import Past, Total
from seqloom.ops.lag_sum import lags


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None) -> Tensor:
    """See `seqloom.ops.biased_average.average`."""
    return halves.average(k, v, bias, past, total, _reader)


def _reader(b: Tensor, floor: Tensor, positions: int, before: int) -> tuple[halves.Read, halves.Read]:
    taps, unbiased = b[0, 0].exp(), floor[0, 0].exp()  # (L, #K), (#K)

    def read(e: Tensor, count: int) -> Tensor:
        return _window(e, taps, count) + _beyond(e, len(taps), count) * unbiased[:, None]

    return read, read


def _window(e: Tensor, taps: Tensor, count: int) -> Tensor:
    """The lag sum of (B, n, S, K, V) at the `count` positions after each block: only its last L-1 tokens reach them."""
    L, (K, V) = len(taps), e.shape[3:]
    near = min(e.shape[2], L - 1)
    reached = min(count, L - 1)
    if near == 0:
        return e.new_zeros(*e.shape[:2], count, K, V)
    x = pad(e[:, :, -near:].flatten(3).flatten(0, 1), (0, 0, 0, reached))
    wide = taps.expand(-1, K).repeat_interleave(V, 1)
    y = lags(x, wide[: near + reached])[:, near:]
    return pad(y, (0, 0, 0, count - reached)).unflatten(0, e.shape[:2]).unflatten(3, (K, V))


def _beyond(e: Tensor, L: int, count: int) -> Tensor:
    """The sum of the tokens of each block that lie L or more before each of the `count` positions after it."""
    S = e.shape[2]
    if S + count <= L:
        return e.new_zeros(*e.shape[:2], count, *e.shape[3:])
    running = pad(e.cumsum(2), (0, 0, 0, 0, 1, 0))
    many = (S + torch.arange(count, device=e.device) - L + 1).clamp(0, S)
    return running[:, :, many]
