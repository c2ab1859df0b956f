"""Calls of the C in channels.c and matrices.c: what they are given, and the memory that they need."""

import ctypes
import functools
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.lag_sum.native import parts

CHANNELS, MATRICES = Path(__file__).with_name("channels.c"), Path(__file__).with_name("matrices.c")
LEAST = 16
"""places of a transform; fewer lags are padded"""


def points(L: int) -> int:
    """Places of a transform: the power of two from L on."""
    return max(LEAST, 1 << (L - 1).bit_length())


def channels(name: str, x: Tensor, w: Tensor, given: Sequence[Tensor], out: Sequence[Tensor | None]) -> None:
    """`forward` or `backward` of taps (L, D)."""
    (B, T, D), L, library = x.shape, len(w), native.need("lag_sum", CHANNELS, "spectral")
    N, kind = points(L), native.WORD[x.dtype]
    threads = native.threads(x.numel() * math.ceil(math.log2(N)))
    scratch = torch.empty(threads, _size(library, f"scratch_{kind}", N), dtype=torch.uint8)
    held = [each if each is None else each.contiguous() for each in (turns(N, x.dtype), *given, *out, scratch)]
    getattr(library, f"{name}_{kind}")(threads, parts(x), B, T, D, L, N, *map(native.pointer, held))


def matrices(name: str, x: Tensor, w: Tensor, given: Sequence[Tensor], out: Sequence[Tensor | None]) -> None:
    """`forward` or `backward` of taps (L, D, D) or (L, G, D/G, D/G)."""
    (B, T, D), L, library = x.shape, len(w), native.need("lag_sum", MATRICES, "spectral")
    G, N, kind = w.shape[1] if w.ndim == 4 else 1, points(L), native.WORD[x.dtype]
    rows, width = B * -(-T // N), D // G
    threads = native.threads(x.numel() * width)
    signals = _size(library, f"signals_{kind}", rows, D, N) * (2 if name == "forward" else 3)
    values = x.new_empty(signals + _size(library, f"blocks_{kind}", width, N))
    own = x.new_empty(threads * _size(library, f"own_{kind}", rows, width, N))
    held = [each if each is None else each.contiguous() for each in (turns(N, x.dtype), *given, *out, values, own)]
    getattr(library, f"{name}_{kind}")(threads, B, T, D, G, L, N, *map(native.pointer, held))


@functools.lru_cache(64)
def turns(N: int, dtype: torch.dtype) -> Tensor:
    """The factors of a transform: r, r², r³ as pairs for each part of each step, parts in the order they lie in.

    A part modulo z^M - s becomes four modulo z^(M/4) - r, the fourth roots of s; the first step of an odd power of two
    makes two. s = i at first. Angles are shares of a full turn.
    """
    angle, steps = torch.tensor([0.25], dtype=torch.float64), []
    log = N.bit_length() - 1
    for ways in [2] * (log % 2) + [4] * (log // 2):
        root = angle / ways
        steps.append(torch.stack([root, 2 * root, 3 * root], 1))
        angle = (root[:, None] + torch.arange(ways, dtype=torch.float64) / ways).flatten()
    around = 2 * math.pi * torch.cat(steps)
    return torch.stack([around.cos(), around.sin()], -1).flatten().to(dtype)


def _size(library: ctypes.CDLL, name: str, *sizes: int) -> int:
    function = getattr(library, name)
    function.restype = ctypes.c_size_t
    found: int = function(*sizes)
    return found
