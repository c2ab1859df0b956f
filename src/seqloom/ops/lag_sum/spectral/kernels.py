"""Calls of the C code in channels.c and matrices.c, with the memory that it needs."""

import functools
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.kernel import Kernel
from seqloom.ops.lag_sum.native import parts

FEWEST = 16
"""the fewest positions of a transform; fewer lags are padded"""
CHANNELS = Kernel("lag_sum", Path(__file__).with_name("channels.c"), backend="spectral")
MATRICES = Kernel("lag_sum", Path(__file__).with_name("matrices.c"), backend="spectral")
OF_CHANNELS = {
    name: CHANNELS.function(
        name, "threads parts B T D L N", f"turns(factors) x(B T D) w(L D){g}", makes, "scratch(threads room, uint8)"
    )
    for name, g, makes in (
        ("forward", "", "y(B T D)"),
        ("backward", " g(B T D)", "dx?needs_dx(B T D) dw?needs_dw(parts L D)"),
    )
}
OF_MATRICES = {
    (name, ndim): MATRICES.function(
        name,
        "threads B T G*H G L N",
        f"turns(factors) x(B T G*H) w({taps}){g}",
        makes.replace("taps", taps),
        "values(space) scratch(threads room)",
    )
    for ndim, taps in ((3, "L H H"), (4, "L G H H"))
    for name, g, makes in (
        ("forward", "", "y(B T G*H)"),
        ("backward", " g(B T G*H)", "dx?needs_dx(B T G*H) dw?needs_dw(taps)"),
    )
}


def points(L: int) -> int:
    """The number of positions of a transform: the smallest power of two that is not below L."""
    return max(FEWEST, 1 << (L - 1).bit_length())


def channels(name: str, x: Tensor, w: Tensor, *g: Tensor, **needs: bool) -> Any:
    """`forward`, which returns y, or `backward` (with g), which returns dx and the parts of dw, for taps (L, D)."""
    N = points(len(w))
    threads = native.threads(x.numel() * math.ceil(math.log2(N)))
    room = CHANNELS.size("scratch", x.dtype, N)
    return OF_CHANNELS[name](turns(N, x.dtype), x, w, *g, threads=threads, parts=parts(x), N=N, room=room, **needs)


def matrices(name: str, x: Tensor, w: Tensor, *g: Tensor, **needs: bool) -> Any:
    """As `channels`, for taps (L, D, D) or (L, G, D/G, D/G); dw is in one part."""
    (B, T, D), L, dtype = x.shape, len(w), x.dtype
    G = w.shape[1] if w.ndim == 4 else 1
    N = points(L)
    chunks = B * -(-T // N)
    width = D // G
    threads = native.threads(x.numel() * width)
    signals = MATRICES.size("signals", dtype, chunks, D, N) * (3 if g else 2)
    space = signals + MATRICES.size("blocks", dtype, width, N)
    room = MATRICES.size("own", dtype, chunks, width, N)
    function = OF_MATRICES[name, w.ndim]
    return function(turns(N, dtype), x, w, *g, threads=threads, G=G, N=N, space=space, room=room, **needs)


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
