"""The lag sum by divide and conquer: exactly causal, in time T log² T instead of the T² of a direct sum.

    a block is as long as the taps; its right half reads its left half by one transform, and each half is divided in the
    same way, down to leaves of about LEAF positions, which are summed lag by lag; a block reads the block before it

A transform rounds its outputs by its largest input. Here all inputs of a transform come before all its outputs, so no
output is computed from a later input. Where there is native code, it sums the leaves and does the transforms.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.lag_sum import direct, fft, native, spectral

LEAF = 8
"""positions of a leaf: LEAF to 2 LEAF - 1; NATIVE_FACTOR times as many where C sums the leaves"""
NATIVE_FACTOR = 32


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps of any of the four kinds → (B, T, D)."""
    dtype = torch.promote_types(x.dtype, w.dtype)
    wide_dtype = torch.promote_types(dtype, torch.float32)
    return _lags(x.to(wide_dtype), w.to(wide_dtype)).to(dtype)


def _lags(x: Tensor, w: Tensor) -> Tensor:
    """The lag sum in the dtype of x and w: leaves, then the halves of each level, then whole blocks."""
    T = x.shape[1]
    reach = min(T, len(w))
    leaves_in_c = w.ndim <= 2 and _calls_c(x) and native.KERNEL.available()
    levels = max(0, (reach // (LEAF * (NATIVE_FACTOR if leaves_in_c else 1))).bit_length() - 1)
    leaf = -(-reach // 2**levels)
    x = pad(x, (0, 0, 0, -T % (leaf << levels)))
    leaves = (native if leaves_in_c else direct).lags(x.unflatten(1, (-1, leaf)).flatten(0, 1), w[:leaf])
    y = leaves.unflatten(0, (len(x), -1)).flatten(1, 2)
    for size in (leaf << level for level in range(levels)):
        left = x.unflatten(1, (-1, 2, size))[:, :, 0]
        y = y + pad(_onto_next_block(left, w)[:, :, None], (0, 0, 0, 0, 1, 0)).flatten(1, 3)
    blocks = x.unflatten(1, (-1, leaf << levels))
    if blocks.shape[1] > 1:
        y = y + pad(_onto_next_block(blocks[:, :-1], w), (0, 0, 0, 0, 1, 0)).flatten(1, 2)
    return y[:, :T]


def _onto_next_block(x: Tensor, w: Tensor) -> Tensor:
    """For blocks x (B, N, S, D), the lag sums over a block at the S positions after it: (B, N, S, D)."""
    size, rows = x.shape[2], x.flatten(0, 1)
    if _calls_c(x) and spectral.available():
        y = spectral.lags(pad(rows, (0, 0, 0, size)), w[: 2 * size])
    else:
        n = 2 * size
        y = fft.signal(fft.times(fft.spectrum(rows, n), fft.taps_spectrum(w[:n], n)), n, n)
    return y[:, size:].unflatten(0, x.shape[:2])


def _calls_c(x: Tensor) -> bool:
    """Whether C may be called: not in an exported graph, which must run on machines without native code."""
    return x.device.type == "cpu" and not torch.compiler.is_exporting()
