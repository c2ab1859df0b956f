"""A cache of the spectra of taps that are matrices, valid as long as the taps do not change.

In a lag sum of U inputs with the taps W_0 … W_{2U-1}, the product of spectra is fast and the transform of the taps
slow. A copy of the taps is compared by value at each use: torch's version counters miss changes through `.data` and by
fused optimizers, and an outdated spectrum would go unnoticed. The copy and the spectra take up to five times the memory
of the taps. All of them together take at most ROOM bytes; spectra that do not fit are computed at each use.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from seqloom.ops.lag_sum import fft
from seqloom.ops.lag_sum.online import token

ROOM = 2 << 30
"""the most bytes of the cache"""
SLAB = 1 << 20
"""numbers of a spectrum that are computed at a time"""


@final
class _Kept:
    """A copy of the first taps of a tensor, and their spectra by number of points."""

    def __init__(self, w: Tensor) -> None:
        self.taps = w[:0].clone()
        self.spectra = dict[tuple[int, torch.dtype], Tensor]()

    def bytes(self) -> int:
        return self.taps.nbytes + sum(spectrum.nbytes for spectrum in self.spectra.values())


_kept: WeakIdKeyDictionary = WeakIdKeyDictionary()


def spectrum(w: Tensor, n: int, dtype: torch.dtype) -> Float[Tensor, "F G H 2 H"]:
    """The spectrum over n points of the first n taps of w (L, D, D) or (L, G, D/G, D/G), real and imaginary parts."""
    entry = _kept.get(w)
    taps = w.detach()[:n]
    known = min(len(taps), len(entry.taps)) if entry is not None else 0  # taps of which the cache has a copy
    if entry is None or not _same(taps[:known], entry.taps[:known]):
        entry, known = _Kept(w), 0
    if (spectrum := entry.spectra.get((n, dtype))) is not None:
        return spectrum
    spectrum = _transform(taps.to(dtype), n)
    new_bytes = spectrum.nbytes + (taps.nbytes if known < len(taps) else 0)
    cached_bytes = sum(other.bytes() for other in _kept.values() if other is not entry) + entry.bytes()
    if cached_bytes + new_bytes <= ROOM:
        if known < len(taps):
            entry.taps = taps.clone()
        entry.spectra[n, dtype] = spectrum
        _kept[w] = entry
    return spectrum


def forget() -> None:
    """Empties the cache."""
    _kept.clear()


def _same(a: Tensor, b: Tensor) -> bool:
    comparable = a.dtype == b.dtype and a.device == b.device and a.shape == b.shape
    return comparable and token.same(a, b)


def _transform(w: Tensor, n: int) -> Tensor:
    """(L, …) → (F, G, H, 2, H), a few rows of the matrices at a time, whose lags are made contiguous."""
    w = w[:, None] if w.ndim == 3 else w
    _, G, H, _ = w.shape
    spectrum = w.new_empty(n // 2 + 1, G, H, 2, H)
    count = max(1, SLAB // (n * G * H))
    for first in range(0, H, count):
        rows = slice(first, first + count)
        row_spectra = torch.view_as_real(fft.taps_spectrum(w[:, :, rows], n))  # (F, G, rows, H, 2)
        spectrum[:, :, rows] = row_spectra.transpose(3, 4)
    return spectrum


def times(X: Tensor, W: Tensor) -> Tensor:
    """The product of each frequency: X (F, B, D) complex under what `spectrum` gave → (F, B, D)."""
    if token.available(W, 3):
        return token.multiply(X.contiguous(), W)
    B, (G, H) = X.shape[1], W.shape[1:3]
    parts = torch.view_as_real(X.unflatten(2, (G, H)).permute(0, 2, 1, 3).contiguous())  # (F, G, B, H, 2)
    # the real and the imaginary part of X, each times both parts of W: (F, G, 2 B, 2 H)
    products = parts.movedim(-1, 2).flatten(2, 3) @ W.flatten(3)
    (re_re, re_im), (im_re, im_im) = (products_of_part.chunk(2, -1) for products_of_part in products.split(B, 2))
    y = torch.complex(re_re - im_im, re_im + im_re)
    return y.transpose(1, 2).flatten(2)
