"""The lag sum under taps (L, D) where its inputs are products, as a Hyena's are: exactly causal, by FFT too.

A Fourier transform rounds each output by the largest input, later ones included. Of products, the largest is that of
the model's inputs to a power, so what a late outlier does to the outputs before it would no longer be small. So the sum
is cut in blocks as long as the taps, and each in halves, quarters, …:

    a right half reads its left half at once, by FFT;   a block reads the one before it likewise
    inside a leaf, at most 15 tokens long, each lag is a term of its own

A later input is in no number that an earlier output is made of. Where the lag sum chooses an exactly causal backend,
that one runs as it is.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import backends, lag_sum, ring
from seqloom.ops.lag_sum import direct, fft
from seqloom.ops.lag_sum.window import Window

LEAF = 8


def lags(x: Stream, w: Tensor) -> Stream:
    """See `seqloom.ops.lag_sum.lags`."""
    if x.numel() == 0 or backends.choose("lag_sum", lag_sum.by_size(x, w), lag_sum.RUN) in lag_sum.EXACT:
        return lag_sum.lags(x, w)
    kind = torch.promote_types(x.dtype, w.dtype)
    exact = torch.promote_types(kind, torch.float32)
    return _cut(x.to(exact), w.to(exact)).to(kind)


def carry(z: Stream, w: Tensor, window: Window, seen: Lengths, lengths: Lengths) -> tuple[Stream, Window]:
    """See `seqloom.ops.lag_sum.window.carry`. A past beyond the taps is not read."""
    forwards = window.flip(1)
    past = ring.latest(forwards, seen, min(window.shape[1], len(w) - 1)).to(z.dtype)
    y = lags(torch.cat([past, z], 1), w)[:, past.shape[1] :]
    return y, ring.write(forwards, seen, z, lengths).flip(1)


def _cut(x: Tensor, w: Tensor) -> Tensor:
    T, reach = x.shape[1], min(x.shape[1], len(w))
    levels = max(0, (reach // LEAF).bit_length() - 1)
    leaf = -(-reach // 2**levels)
    x = pad(x, (0, 0, 0, -T % (leaf << levels)))
    y = direct.lags(x.unflatten(1, (-1, leaf)).flatten(0, 1), w[:leaf]).unflatten(0, (len(x), -1)).flatten(1, 2)
    for size in (leaf << level for level in range(levels)):
        left = x.unflatten(1, (-1, 2, size))[:, :, 0]
        y = y + pad(_after(left, w)[:, :, None], (0, 0, 0, 0, 1, 0)).flatten(1, 3)
    blocks = x.unflatten(1, (-1, leaf << levels))
    if blocks.shape[1] > 1:
        y = y + pad(_after(blocks[:, :-1], w), (0, 0, 0, 0, 1, 0)).flatten(1, 2)
    return y[:, :T]


def _after(x: Tensor, w: Tensor) -> Tensor:
    """What as many places as a block has, right after it, read in it: (B, N, S, D) → (B, N, S, D)."""
    n = 2 * x.shape[2]
    spectrum = fft.times(fft.spectrum(x.flatten(0, 1), n), fft.taps_spectrum(w[:n], n))
    return fft.signal(spectrum, n, n)[:, x.shape[2] :].unflatten(0, x.shape[:2])
