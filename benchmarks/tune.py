"""Measures, on this machine, which backend of the lag sum is the fastest at which size: the table it chooses by.

make tune                                       writes the repository's, src/seqloom/ops/lag_sum/crossovers.json
SEQLOOM_LAG_SUM_TABLE=mine.json make tune       writes another, which the same variable puts in force

A backend that is over 4 times as slow as the fastest gives the time of its first runs. One whose cost grows as T·L and
that was over 16 times as slow at a smaller size is not asked. Interrupted, it leaves the table as it was.
"""

import math
import os
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from harness import gate

from seqloom.analysis.measure import race
from seqloom.analysis.origin import origin
from seqloom.analysis.others import warning, watch
from seqloom.core.progress import progress
from seqloom.ops import backends
from seqloom.ops.lag_sum import OP, choice, crossovers, lags
from seqloom.ops.lag_sum.crossovers import Point, Table
from seqloom.training.memory import keep_freed_memory

TOKENS = {8: (1, 8, 64), 32: (1, 8, 64), 128: (1, 8, 64), 512: (1, 16), 2048: (1, 4), 8192: (1,), 32768: (1,)}
"""rows by tokens: short texts come many at a time"""
SHORT = (4, 32)
"""lags, beside as many as there are tokens"""
CHANNELS = {"number": (128,), "vectors": (32, 128, 512), "matrices": (32, 128, 256), "groups": (128,)}
LONGEST, GROUPS = {"number": 32768, "vectors": 32768, "matrices": 2048, "groups": 2048}, 8
LARGEST = 2**25
"""numbers of all taps' matrices, or of Toeplitz's, at most"""
SLOW, ROUNDS, LEAST = 4, 5, 2e-3
"""times the fastest; rounds; seconds of a timed run, at least"""
GROWING = {"direct", "toeplitz", "native"}
"""the backends whose cost grows as T·L"""


def sizes(taps):
    """The points (T, L, D, B) of this kind of taps, few tokens first."""
    for T, rows in TOKENS.items():
        for L in sorted({min(T, short) for short in (*SHORT, T)}):
            for D in CHANNELS[taps]:
                if LONGEST[taps] >= T and (taps != "matrices" or L * D * D <= LARGEST):
                    yield from ((T, L, D, B) for B in rows)


def drawn(taps, L, D):
    shape = {"number": (), "vectors": (D,), "matrices": (D, D), "groups": (GROUPS, D // GROUPS, D // GROUPS)}[taps]
    return torch.randn(L, *shape) / L**0.5


def run(backend, x, w, dy, many=1):
    """Called, it takes the sum (and, with dy, all gradients) `many` times."""

    def once():
        with backends.use(lag_sum=backend), torch.set_grad_enabled(dy is not None):
            for _ in range(many):
                y = lags(x, w)
                if dy is not None:
                    torch.autograd.grad(y, (x, w), dy)

    return once


def able(taps):
    """The backends to ask for such taps."""
    here, found = OP.backends.keys() - {"reference", "triton"} - backends.lacking("lag_sum").keys(), []
    for name in sorted(here):
        with suppress(ValueError):  # not for this kind
            run(name, torch.ones(1, 2, GROUPS), drawn(taps, 2, GROUPS), None)()
            found.append(name)
    return found


def timed(runs):
    """Seconds of each run by name, the least of its rounds; those far behind the fastest ran twice at most."""
    first = {}
    for name, make in runs.items():
        once = make(1)
        for _ in range(2):
            start = time.perf_counter()
            once()
            first[name] = time.perf_counter() - start
            if first[name] > max(0.1, SLOW * min(first.values())):
                break
    best = min(first.values())
    many, rounds = max(1, math.ceil(LEAST / best)), 3 if best > 0.3 else ROUNDS
    times = race({name: runs[name](many) for name, took in first.items() if took <= SLOW * best}, rounds, warm=0)
    return first | {name: min(each.times) / many for name, each in times.items()}


def point(taps, training, size, names):
    """A point of the table, of these backends."""
    T, L, D, B = size
    x, w = torch.randn(B, T, D, requires_grad=training), drawn(taps, L, D).requires_grad_(training)
    dy = torch.randn(B, T, D) if training else None
    found = timed({name: partial(run, name, x, w, dy) for name in sorted(names)})
    return Point(taps, training, size, {name: float(f"{1e3 * took:.4g}") for name, took in found.items()})


def hopeless(points, size):
    """The backends not to ask: far behind at a point of which no size is larger, or in want of too large a matrix."""
    smaller = [each for each in points if all(a <= b for a, b in zip(each.sizes, size, strict=True))]
    far = {name for each in smaller for name, ms in each.ms.items() if ms > SLOW**2 * min(each.ms.values())}
    return far & GROWING | ({"toeplitz"} if size[0] ** 2 > LARGEST else set())


def measured(kinds=choice.KINDS):
    """All points, with progress."""
    jobs = [(taps, training, size) for taps in kinds for training in (True, False) for size in sizes(taps)]
    points, others = [], watch()
    keep_freed_memory()
    torch.manual_seed(0)
    with progress("measuring", len(jobs), "sizes") as advance:
        for taps, training, size in jobs:
            alike = [each for each in points if (each.taps, each.training) == (taps, training)]
            points.append(point(taps, training, size, set(able(taps)) - hopeless(alike, size)))
            advance(note=f"{taps}, {'training' if training else 'reading'}, T L D B {size}")
    if said := warning(others()):
        print(said, file=sys.stderr)
    return points


@contextmanager
def without_table():
    """Inside, an empty table is in force: what is to be made cannot be needed, even where it is broken."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
        os.environ["SEQLOOM_LAG_SUM_TABLE"] = nothing = f"{folder}/nothing.json"
        crossovers.write(nothing, Table({}, ()))
        choice.forget()
        try:
            yield
        finally:
            choice.forget()


def main() -> None:
    place = Path(os.environ.get("SEQLOOM_LAG_SUM_TABLE") or crossovers.PLACE)
    if not place.parent.is_dir():
        raise SystemExit(f"there is no folder {place.parent} for the table: make it, or name another")
    with without_table():
        gate(*(f"tests/ops/test_lag_sum{form}.py" for form in ("", "_native", "_spectral")))
        try:
            points = measured()
        except KeyboardInterrupt:
            print(f"stopped; {place} is as it was", file=sys.stderr)
            raise SystemExit(130) from None
    source = origin("make tune")
    crossovers.write(place, Table({name: source[name] for name in ("machine", "commit", "date")}, tuple(points)))
    print(f"{len(points)} sizes in {place}; `seqloom list --backends` shows what they choose")


if __name__ == "__main__":
    main()
