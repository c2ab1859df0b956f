"""The sums that a block of inputs adds to the block of outputs after it, and the schedule of these blocks.

    added_a = Σ_b x_{r-1-b} W_{a+b+1},    0 ≤ a, b < U          U inputs before position r, U outputs from it on

It works for taps of all four shapes, on the rings of `online`. Short blocks are summed lag by lag, long ones by a
Fourier transform over 2U points, whose wrap-around affects only the positions of the inputs, which are not used.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.lag_sum import fft, window
from seqloom.ops.lag_sum.online import kept

LEAF = 32
"""the longest block that is summed lag by lag in torch; for C see `token.LEAF`"""


SLAB = 1 << 20
"""numbers that are transformed at a time, few enough for the cache"""


class Block(NamedTuple):
    """A block of inputs and the outputs to which they are added, where these are less than L away."""

    inputs: range
    outputs: range


def longest(L: int) -> int:
    """The longest block for L taps: the smallest power of two that is not below L-1."""
    return 1 << max(0, L - 2).bit_length()


def block(r: int, L: int) -> Block:
    """The block that is added after token r, r ≥ 1; times count from the start of the schedule."""
    size = min(r & -r, longest(L), L - 1)
    return Block(range(r - size, r), range(r, r + size))


def open_blocks(count: int) -> Iterator[tuple[int, int]]:
    """The end and the size of each block of `count` tokens whose outputs are still ahead: one for each bit of it."""
    end = 0
    for bit in reversed(range(count.bit_length())):
        if count >> bit & 1:
            end += 1 << bit
            yield end, 1 << bit


def add(w: Tensor, past: Tensor, ahead: Tensor, rows: Tensor, end: Tensor, size: int, skipped: int = 0) -> None:
    """Adds the `size` inputs before `end` (N,) to the `size` outputs from there on, in N `rows` of the rings.

    The first `skipped` outputs are left out.
    """
    P = past.shape[1]
    ends = {*end.tolist()}
    sums_after = _lag_by_lag if size <= LEAF else _sum_by_transforms
    if len(rows) == len(past) and len(ends) == 1:  # all rows at one position: the rings are read as they are
        common_end = ends.pop()
        newest_first = torch.cat([past[:, span] for span in _spans(-common_end % P, size, P)], 1)
        sums = sums_after(newest_first.to(ahead.dtype), w)[:, skipped:]
        for span in _spans((common_end + skipped) % P, size - skipped, P):
            ahead[:, span] += sums[:, : span.stop - span.start]
            sums = sums[:, span.stop - span.start :]
    else:
        offset = torch.arange(size, device=past.device)
        newest_first = past[rows[:, None], (offset - end[:, None]) % P]
        sums = sums_after(newest_first.to(ahead.dtype), w)
        ahead[rows[:, None], (end[:, None] + offset[skipped:]) % P] += sums[:, skipped:]


def _spans(first: int, count: int, P: int) -> list[slice]:
    """The slices of `count` consecutive positions of a ring of P: one, or two where they wrap around."""
    before_wrap = min(count, P - first)
    spans = [slice(first, first + before_wrap), slice(0, count - before_wrap)]
    return spans if before_wrap < count else spans[:1]


def _lag_by_lag(newest_first: Tensor, w: Tensor) -> Tensor:
    """The lag sums over N inputs (B, N, D) at the N positions after them: (B, N, D), lag by lag."""
    N = newest_first.shape[1]
    w = w.detach()[1 : 2 * N].to(newest_first.dtype)
    # the inputs at lags 1 … K of each of the N positions: (B, N, D, K), 0 where there is none
    by_lag = pad(newest_first, (0, 0, N - 1, N - 1)).unfold(1, len(w), 1)[:, :N].flip(1)
    return window.sum_newest(by_lag.transpose(2, 3).flatten(0, 1), w).unflatten(0, (-1, N))


def _sum_by_transforms(newest_first: Tensor, w: Tensor) -> Tensor:
    """As `_lag_by_lag`, by Fourier transforms."""
    N, dtype = newest_first.shape[1], newest_first.dtype
    n = 2 << (N - 1).bit_length()
    x = newest_first.flip(1)
    if w.ndim > 2:
        return fft.signal(kept.times(fft.spectrum(x, n), kept.spectrum(w, n, dtype)), n, 2 * N)[:, N:]
    W = torch.fft.rfft(w.detach()[:n].to(dtype).t().contiguous(), n)  # (D, F), or (F,) of taps that are shared
    row_count = max(1, SLAB // (n * x.shape[2]))
    spectra = [torch.fft.rfft(rows.transpose(1, 2).contiguous(), n).mul_(W) for rows in x.split(row_count)]
    return torch.cat([torch.fft.irfft(Y, n)[:, :, N : 2 * N] for Y in spectra]).transpose(1, 2)
