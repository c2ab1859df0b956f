"""Which backend of the lag sum runs: the one that was the fastest at the nearest size that was measured.

    sizes = T tokens, L lags (at most T), D channels, B rows         near as a ratio: 64 is as far from 32 as from 128

Of the sizes in the table (`crossovers.json`, which `make tune` measures) the nearest T is taken, of those the nearest
L, then D, then B; of the backends measured there, the fastest that this machine can run. Where one backend is nowhere
more than a tenth slower than the fastest, it is taken for all of them. SEQLOOM_LAG_SUM_TABLE names another table. Away
from the CPU, and in a graph that is exported to run elsewhere, a rule decides: see `KERNELS` and `PORTABLE`.
"""

import functools
import os
from itertools import pairwise
from math import isqrt
from typing import Any, TypeAlias

import torch
from torch import Tensor, compiler

from seqloom.ops import backends
from seqloom.ops import gpu as device
from seqloom.ops.lag_sum.crossovers import PLACE, Point, read

KINDS = ("number", "vectors", "matrices", "groups")
"""kinds of taps: one number a lag, a vector, a matrix, a matrix for each group; they have 1, 2, 3 and 4 dimensions"""
SLACK = 1.1
"""how many times as long as the fastest a backend may take and still be as good"""
Sizes: TypeAlias = tuple[int, int, int, int]
"""T, L, D, B"""
Tree: TypeAlias = str | tuple[int, tuple[int, ...], tuple[Any, ...]]
"""a backend; or the place of a size in `Sizes`, the bounds up to which it goes, and a tree for each and for beyond"""


_FEW_LAGS: Tree = (1, (8,), ("direct", "fft"))
_FEW_ROWS: Tree = (3, (2,), ("direct", _FEW_LAGS))
PORTABLE: dict[tuple[str, bool], Tree] = {
    **{("number", training): (0, (384,), ("toeplitz", "fft")) for training in (True, False)},
    **{("vectors", training): _FEW_LAGS for training in (True, False)},
    **{(taps, True): _FEW_LAGS for taps in ("matrices", "groups")},
    **{(taps, False): _FEW_ROWS for taps in ("matrices", "groups")},
}
"""the rule without a table, by kind of taps and training, in plain torch alone: up to 8 lags one product each; so are
matrices that one or two rows are read with, whose spectra would not pay for themselves"""
KERNELS = {"number": 64, "vectors": 64, "matrices": 8, "groups": 8}
"""lags up to which the rule takes Triton's kernels on a GPU; by the count of products, not measured: a direct sum of
matrices has L/4 to L/2 times those of transforms"""
NATIVE = 2048
"""lags up to which the rule takes C for channels that do not mix, where there is C"""


def fastest(x: Tensor, w: Tensor) -> str:
    """The backend for these inputs (B, T, D) and taps, with gradients where they are on."""
    B, T, D = x.shape
    sizes = (T, min(T, len(w)), D, B)
    taps, training = KINDS[w.ndim - 1], torch.is_grad_enabled()
    if not x.is_cpu or compiler.is_exporting():
        rule = PORTABLE[taps, training]
        return find((1, (KERNELS[taps],), ("triton", rule)) if device.best(x.device) else rule, sizes)
    if compiler.is_compiling():
        return find(tree_of(taps, training), sizes)
    return _kept(taps, training, sizes, *backends.lacking("lag_sum"))


def find(tree: Tree, sizes: Sizes) -> str:
    """What the tree says for these sizes; only compares them, so that a graph may have them as symbols."""
    while not isinstance(tree, str):
        axis, bounds, parts = tree
        size, place = sizes[axis], 0
        while place < len(bounds) and size > bounds[place]:
            place += 1
        tree = parts[place]
    return tree


@compiler.assume_constant_result  # type: ignore[untyped-decorator]  # as torch leaves it
def tree_of(taps: str, training: bool) -> Tree:
    """The choice for one of the `KINDS` on this machine; a rule where the table in force says nothing about it.

    ValueError, in one line, where SEQLOOM_LAG_SUM_TABLE names no table.
    """
    return _planted(taps, training, *backends.lacking("lag_sum"))


@functools.cache
def place() -> str:
    """The file of the table in force: SEQLOOM_LAG_SUM_TABLE as it was at the first lag sum, else the package's own."""
    return os.environ.get("SEQLOOM_LAG_SUM_TABLE") or str(PLACE)


def forget() -> None:
    """Reads the environment and the table anew at the next lag sum, as a new process would."""
    for each in (place, _planted, _kept):
        each.cache_clear()


@functools.lru_cache(4096)
def _kept(taps: str, training: bool, sizes: Sizes, *lacking: str) -> str:
    return find(_planted(taps, training, *lacking), sizes)


@functools.cache
def _planted(taps: str, training: bool, *lacking: str) -> Tree:
    able = set(backends.known()["lag_sum"]) - {"reference", "triton", *lacking}
    if {"native", "spectral"} & set(lacking):
        able.discard("halves")  # its times are with the C that others lack too
    points = {}
    for each in read(place()).points:
        here = {name: ms for name, ms in each.ms.items() if name in able}
        if (each.taps, each.training) == (taps, training) and here:
            points[each.sizes] = Point(taps, training, each.sizes, here)
    if points:
        return grow([*points.values()])
    rule = PORTABLE[taps, training]
    return (1, (NATIVE,), ("native", rule)) if "native" in able and taps in ("number", "vectors") else rule


def grow(points: list[Point], axis: int = 0) -> Tree:
    """The tree over these points, of which all sizes before `axis` are the same or do not matter."""
    if (name := _good_enough(points)) is not None:
        return name
    values = sorted({point.sizes[axis] for point in points})
    parts = [grow([point for point in points if point.sizes[axis] == value], axis + 1) for value in values]
    between = [isqrt(low * high) for low, high in pairwise(values)]
    changes = [(bound, right) for bound, (left, right) in zip(between, pairwise(parts), strict=True) if left != right]
    if not changes:
        return parts[0]
    return axis, tuple(bound for bound, _ in changes), (parts[0], *(part for _, part in changes))


def _good_enough(points: list[Point]) -> str | None:
    """The backend that is nowhere much slower than the fastest; of several, the one with the least sum of ratios."""
    whole: dict[str, float] = {}
    for name in set.intersection(*(set(point.ms) for point in points)):
        ratios = [point.ms[name] / min(point.ms.values()) for point in points]
        if max(ratios) <= SLACK:
            whole[name] = sum(ratios)
    return min(sorted(whole), key=whole.__getitem__, default=None)
