"""Measurements of a fast path: operations, time, memory.

Times are medians with quartiles of runs that take turns: other load on the machine affects all of them alike. A
short pause after each run lets the others' caches and clocks settle. Only ratios within one race mean anything.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from seqloom.core.mixer import Mixer
from seqloom.counting.count import Executed, count

PAUSE = 0.001
"""seconds between two timed runs"""


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, in the order of the rounds; after `over`, multiples of another run's."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of the runs took no longer."""
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the runs took no longer than the first, a quarter no less than the second."""
        if len(self.times) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    def over(self, peer: "Timing") -> "Timing":
        """These times as multiples of the peer's, round by round, so that slow drift of the machine cancels.

        ValueError unless both have the same number of rounds, as times of one race have.
        """
        if len(self.times) != len(peer.times):
            raise ValueError(f"{len(self.times)} rounds do not pair with {len(peer.times)}: let both run in one race")
        return Timing(tuple(own / other for own, other in zip(self.times, peer.times, strict=True)))


def count_executed(mixer: Mixer, T: int, batch: int = 1) -> Executed:
    """What the forward of `mixer` executes for a row of T tokens, on the backends in use, without gradients.

    With a larger `batch`, work that rows share is spread over them. What the equation costs is `mixer.cost(T)`.
    """
    x = torch.randn(batch, T, mixer.dim, dtype=mixer.dtype, device=mixer.device)
    with torch.no_grad():
        return count(lambda: mixer(x)).per(batch)


def seconds(run: Callable[[], object], repeats: int = 5) -> Timing:
    """The time of `run`, alone; to compare two, let them `race`."""
    return race({"": run}, repeats)[""]


def race(
    runs: Mapping[str, Callable[[], object]],
    repeats: int = 5,
    *,
    warm: int = 1,
    after: Callable[[], object] | None = None,
) -> dict[str, Timing]:
    """The times of several runs that take turns for `repeats` rounds.

    Every second round goes backwards, and every pair of rounds begins with another run, so that no run always comes
    after the same one, whose data it finds in the caches.

    Each is run `warm` times before the first round; `after` is called after each timed run and is not timed. ValueError
    if `repeats` is less than 1 or there are no runs.
    """
    if repeats < 1 or not runs:
        raise ValueError(f"nothing to time: {len(runs)} runs, {repeats} repeats; give at least one of each")
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for name in names * warm:
        runs[name]()
    for turn in range(repeats):
        first = turn // 2 % len(names)
        order = names[first:] + names[:first]
        for name in reversed(order) if turn % 2 else order:
            times[name].append(_time_run(runs[name]))
            if after is not None:
                after()
            time.sleep(PAUSE)
    return {name: Timing(tuple(times[name])) for name in names}


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that torch's CPU allocator held at once for `run`, in bytes, beyond the memory in use before it.

    Counts results, temporaries and the workspaces that torch's kernels ask for; what a library takes behind torch's
    back (the scratch of a Fourier transform, of a matrix product) is not counted. Memory from before that `run` frees
    is not subtracted. It runs once, under torch's profiler; what is written to stderr meanwhile is lost.
    """
    with _silent_stderr(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = run()
    del result
    assert record.profiler is not None
    assert record.profiler.kineto_results is not None
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    in_use = peak = 0
    for move in sorted(events, key=lambda event: event.start_ns()):
        in_use += move.nbytes()
        peak = max(peak, in_use)
    return peak


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discards what the process writes to stderr, where the profiler prints lines that mean nothing to the user."""
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def _time_run(run: Callable[[], object]) -> float:
    _settle()
    start = time.perf_counter()
    run()
    _settle()
    return time.perf_counter() - start


def _settle() -> None:
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
