"""Finds the size at which a model trains as fast as another, by timing training steps at several sizes.

    row = clock(config, to, "ffn", training);   match(config, to, equal="time", by="ffn", row=row)

1. The smallest size and the given one are timed, then doubled sizes until one is slower than `to`.
2. A geometric grid between a faster and a slower size is timed.
3. The sizes at which a line between these two reaches 0.96 … 1.04 of the time of `to` are timed, in more rounds.
4. The best of several is best partly by chance, so it is timed once more, only with `to`; both timings count.

`to` takes its turn in every round, and ratios are computed within a round.
"""

from collections.abc import Iterable

import torch

from seqloom.analysis.match import By, match
from seqloom.analysis.measure import Timing, race
from seqloom.analysis.sizes import allowed_sizes, at, buildable, quantity, size_of, title
from seqloom.analysis.timed import TimedSize, TimedSizes
from seqloom.core.device import choose_device
from seqloom.core.layered import LayeredConfig
from seqloom.core.progress import progress
from seqloom.studies.random_batches import training_step
from seqloom.training.config import TrainConfig
from seqloom.training.memory import keep_freed_memory, require_room

COARSE = 3
"""rounds of the first, coarse search over sizes"""
AIMS = (0.96, 0.98, 1.0, 1.02, 1.04)
"""ratios to the time of `to` at which sizes are timed in step 3"""
TRIES = 3
"""the most races around the target time; they end once a size is within 5%"""
SizeTimes = dict[int, TimedSize]


def match_time(config: LayeredConfig, to: LayeredConfig, by: By, training: TrainConfig, repeats: int = 7) -> TimedSizes:
    """Races training steps of `to` and of `config`, with several values of the size `by`, on random batches.

    It takes a few dozen steps of each model. ValueError where a model cannot be built or does not fit into memory,
    `repeats` is less than 1, or the contexts differ.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    if config.context != to.context:
        match(config, to, equal="time", by=by)  # raises the error that names the reason
    quantity(config, "params")
    keep_freed_memory()
    timed_sizes: SizeTimes = {}
    to_times: list[float] = []

    def measure(sizes: Iterable[int], rounds: int) -> None:
        to_timing, timed = _race(config, to, by, training, sorted(set(sizes)), rounds)
        to_times.extend(to_timing.times)
        timed_sizes.update(timed)

    def result() -> TimedSizes:
        return TimedSizes(config, to, by, Timing(tuple(to_times)), dict(timed_sizes))

    coarse = min(COARSE, repeats)
    measure({_smallest(config, by), size_of(config, by)}, coarse)
    while timed_sizes[max(timed_sizes)].ratio.median < 1:
        larger = _larger(config, by, max(timed_sizes), training)
        if larger is None:
            break
        measure({larger}, coarse)
    bracket = _bracket(timed_sizes)
    if bracket is not None and bracket[1] > 4 * bracket[0]:
        inner = _sizes_between(config, by, *bracket) - set(timed_sizes)
        if inner:
            measure(inner, coarse)
    for _ in range(TRIES):
        measure(_around(config, by, timed_sizes), repeats)
        if abs(result().sizes[result().nearest].ratio.median - 1) <= 0.05 or _bracket(timed_sizes) is None:
            break
    best = result().nearest
    before = timed_sizes[best]
    measure({best}, repeats)
    timed_sizes[best] = _pool_times(before, timed_sizes[best])
    return result()


def _race(
    config: LayeredConfig, to: LayeredConfig, by: By, training: TrainConfig, sizes: list[int], rounds: int
) -> tuple[Timing, SizeTimes]:
    """The times of `to`, and those of `config` at each size, from one race."""
    with torch.random.fork_rng(devices=[]):
        runs = {"": training_step(to, training)}
        runs |= {str(size): training_step(at(config, by, size), training) for size in sizes}
        what = f"{title(config)} at {by} {', '.join(f'{size:,}' for size in sizes)}"
        with progress(f"timing {what}", rounds * len(runs), "steps") as advance:
            times = race(runs, rounds, warm=2, after=advance)
    to_timing = times.pop("")
    return to_timing, {int(size): TimedSize(time, time.over(to_timing)) for size, time in times.items()}


def _pool_times(first: TimedSize, second: TimedSize) -> TimedSize:
    seconds = first.seconds.times + second.seconds.times
    ratios = first.ratio.times + second.ratio.times
    return TimedSize(Timing(seconds), Timing(ratios))


def _smallest(config: LayeredConfig, by: By) -> int:
    """The smallest size with which the model can be built."""
    smallest = buildable(config, by, allowed_sizes(config, by).start)
    return size_of(config, by) if smallest is None else smallest


def _larger(config: LayeredConfig, by: By, size: int, training: TrainConfig) -> int | None:
    """A size about twice as large; None where that model cannot be built or does not fit into memory."""
    larger = buildable(config, by, 2 * size)
    try:
        if larger is not None:
            require_room(at(config, by, larger), choose_device(training.device))
    except ValueError:
        return None
    return larger


def _bracket(sizes: SizeTimes) -> tuple[int, int] | None:
    """The largest size that is faster than `to` and below a slower one, and the next slower size; None without both."""
    slower = [size for size, time in sizes.items() if time.ratio.median >= 1]
    quicker = [size for size in sizes if size not in slower and size < max(slower, default=0)]
    return (max(quicker), min(size for size in slower if size > max(quicker))) if quicker else None


def _sizes_between(config: LayeredConfig, by: By, low: int, high: int) -> set[int]:
    """Three sizes that divide the interval from `low` to `high` into four parts of equal ratio."""
    sizes = (buildable(config, by, round(low * (high / low) ** (part / 4))) for part in (1, 2, 3))
    return {size for size in sizes if size is not None and low < size < high}


def _around(config: LayeredConfig, by: By, timed: SizeTimes) -> set[int]:
    """Sizes at which a line through the bracket is near the time of `to`; without a bracket, the nearest timed size."""
    bracket = _bracket(timed)
    if bracket is None:
        return {min(timed, key=lambda size: abs(timed[size].ratio.median - 1))}
    low, high = bracket
    low_ratio, high_ratio = (timed[size].ratio.median for size in bracket)
    guesses = (low + (aim - low_ratio) / (high_ratio - low_ratio) * (high - low) for aim in AIMS)
    sizes = {buildable(config, by, round(min(max(guess, low), high))) for guess in guesses}
    return {size for size in sizes if size is not None}
