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
        self.taps, self.spectra = w[:0].clone(), dict[tuple[int, torch.dtype], Tensor]()

    def bytes(self) -> int:
        return self.taps.nbytes + sum(spectrum.nbytes for spectrum in self.spectra.values())


_kept: WeakIdKeyDictionary = WeakIdKeyDictionary()


def spectrum(w: Tensor, n: int, kind: torch.dtype) -> Float[Tensor, "F G H 2 H"]:
    """The spectrum over n points of the first n taps of w (L, D, D) or (L, G, D/G, D/G), real and imaginary parts."""
    entry = _kept.get(w)
    first = w.detach()[:n]
    known = min(len(first), len(entry.taps)) if entry is not None else 0
    if entry is None or not _same(first[:known], entry.taps[:known]):
        entry, known = _Kept(w), 0
    if (spectrum := entry.spectra.get((n, kind))) is not None:
        return spectrum
    made = _transform(first.to(kind), n)
    more = made.nbytes + (first.nbytes if known < len(first) else 0)
    if sum(other.bytes() for other in _kept.values() if other is not entry) + entry.bytes() + more <= ROOM:
        if known < len(first):
            entry.taps = first.clone()
        entry.spectra[n, kind] = made
        _kept[w] = entry
    return made


def forget() -> None:
    """Empties the cache."""
    _kept.clear()


def _same(a: Tensor, b: Tensor) -> bool:
    alike = a.dtype == b.dtype and a.device == b.device and a.shape == b.shape
    return alike and token.same(a, b)


def _transform(w: Tensor, n: int) -> Tensor:
    """(L, …) → (F, G, H, 2, H), a few rows of the matrices at a time, whose lags are made contiguous."""
    w = w[:, None] if w.ndim == 3 else w
    _, G, H, _ = w.shape
    made = w.new_empty(n // 2 + 1, G, H, 2, H)
    rows = max(1, SLAB // (n * G * H))
    for first in range(0, H, rows):
        part = torch.view_as_real(fft.taps_spectrum(w[:, :, first : first + rows], n))  # (F, G, rows, H, 2)
        made[:, :, first : first + rows] = part.transpose(3, 4)
    return made


def times(X: Tensor, W: Tensor) -> Tensor:
    """The product of each frequency: X (F, B, D) complex under what `spectrum` gave → (F, B, D)."""
    if token.available(W, 3):
        return token.multiply(X.contiguous(), W)
    B, (G, H) = X.shape[1], W.shape[1:3]
    parts = torch.view_as_real(X.unflatten(2, (G, H)).permute(0, 2, 1, 3).contiguous())  # (F, G, B, H, 2)
    both = parts.movedim(-1, 2).flatten(2, 3) @ W.flatten(
        3
    )  # (F, G, 2 B, 2 H): real and imaginary part of X, each times both of W
    (re_re, re_im), (im_re, im_im) = (half.chunk(2, -1) for half in both.split(B, 2))
    y = torch.complex(re_re - im_im, re_im + im_re)
    return y.transpose(1, 2).flatten(2)
