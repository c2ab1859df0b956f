"""Calls of the C code in channels.c and matrices.c, with the memory that it needs."""

import functools
import math
from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.lag_sum.native import parts
from seqloom.ops.native import Argument, Entry

CHANNELS, MATRICES = Path(__file__).with_name("channels.c"), Path(__file__).with_name("matrices.c")
FEWEST = 16
"""the fewest positions of a transform; fewer lags are padded"""
TAPS = {2: "L D", 3: "L H H", 4: "L G H H"}
"""sizes of the taps by their number of dimensions; a group has H channels"""


def _entry(name: str, ndim: int) -> Entry:
    signal = "B T G*H" if ndim > 2 else "B T D"
    taps = TAPS[ndim]
    backward = (
        Argument("g", signal),
        Argument("dx", signal, optional=True, written=True),
        Argument("dw", taps if ndim > 2 else f"parts {taps}", optional=True, written=True),
    )
    scratch = (Argument("scratch", "threads room", torch.uint8, written=True),)
    values = (Argument("values", "space", written=True), Argument("scratch", "threads room", written=True))
    return Entry(
        "lag_sum",
        MATRICES if ndim > 2 else CHANNELS,
        name,
        "threads B T G*H G L N" if ndim > 2 else "threads parts B T D L N",
        Argument("turns", "factors"),
        Argument("x", signal),
        Argument("w", taps),
        *((Argument("y", signal, written=True),) if name == "forward" else backward),
        *(values if ndim > 2 else scratch),
        backend="spectral",
        least="threads",
    )


OF_CHANNELS = {name: _entry(name, 2) for name in ("forward", "backward")}
OF_MATRICES = {(name, ndim): _entry(name, ndim) for name in ("forward", "backward") for ndim in (3, 4)}


def points(L: int) -> int:
    """The number of positions of a transform: the smallest power of two that is not below L."""
    return max(FEWEST, 1 << (L - 1).bit_length())


def channels(name: str, x: Tensor, w: Tensor, *rest: Tensor | None) -> None:
    """Calls `forward` (`rest` is y) or `backward` (`rest` are g, dx and dw) for taps (L, D)."""
    N = points(len(w))
    threads = native.threads(x.numel() * math.ceil(math.log2(N)))
    scratch = torch.empty(threads, _size(CHANNELS, "scratch", x.dtype, N), dtype=torch.uint8)
    factors = turns(N, x.dtype)
    OF_CHANNELS[name](factors, x, w, *rest, scratch, threads=threads, parts=parts(x), L=len(w), N=N)


def matrices(name: str, x: Tensor, w: Tensor, *rest: Tensor | None) -> None:
    """As `channels`, for taps (L, D, D) or (L, G, D/G, D/G)."""
    (B, T, D), L, dtype = x.shape, len(w), x.dtype
    G = w.shape[1] if w.ndim == 4 else 1
    N = points(L)
    chunks = B * -(-T // N)
    width = D // G
    threads = native.threads(x.numel() * width)
    signals = _size(MATRICES, "signals", dtype, chunks, D, N) * (2 if name == "forward" else 3)
    values = x.new_empty(signals + _size(MATRICES, "blocks", dtype, width, N))
    scratch = x.new_empty(threads, _size(MATRICES, "own", dtype, chunks, width, N))
    OF_MATRICES[name, w.ndim](turns(N, dtype), x, w, *rest, values, scratch, threads=threads, G=G, L=L, N=N)


@functools.lru_cache(64)
def turns(N: int, dtype: torch.dtype) -> Tensor:
    """The twiddle factors of a transform: r, r², r³ as pairs of reals for each part of each step, in memory order.

    A step splits a part modulo z^M - s into four modulo z^(M/4) - r, with the fourth roots r of s; for an odd power of
    two the first step splits into two. At first s = i. Angles are measured in full turns.
    """
    angle, steps = torch.tensor([0.25], dtype=torch.float64), []
    log = N.bit_length() - 1
    for ways in [2] * (log % 2) + [4] * (log // 2):
        root = angle / ways
        steps.append(torch.stack([root, 2 * root, 3 * root], 1))
        angle = (root[:, None] + torch.arange(ways, dtype=torch.float64) / ways).flatten()
    radians = 2 * math.pi * torch.cat(steps)
    return torch.stack([radians.cos(), radians.sin()], -1).flatten().to(dtype)


def _size(source: Path, name: str, dtype: torch.dtype, *sizes: int) -> int:
    return native.size("lag_sum", source, f"{name}_{native.WORD[dtype]}", *sizes, backend="spectral")
