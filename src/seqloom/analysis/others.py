"""Whether other processes used the cores while something was timed here.

    others = watch()
    ...                # what is timed
    others()           # the share of our cores' time that others took, 0 … 1; None where the system does not report it

The cores are those that this process may run on; what a virtual machine's host took from them counts too.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LOADED = 0.1
"""the share from which a machine is called loaded"""
SAMPLE = 0.3
"""seconds that are watched at least: the system counts in hundredths"""


@dataclass(frozen=True)
class Cores:
    """The seconds of the cores, and the busy ones of our process, since the system started."""

    busy: dict[int, float]
    """seconds in which each core was neither idle nor waiting for a disk"""
    whole: dict[int, float]
    """all seconds of each core"""
    ours: frozenset[int]
    """the cores that a thread of this process may run on"""
    process: float
    """seconds of all threads of this process"""


def watch() -> Callable[[], float | None]:
    """Starts watching; the returned function ends it (after at least `SAMPLE` seconds) and gives the others' share."""
    before = cores()
    start = time.monotonic()

    def end() -> float | None:
        time.sleep(max(0.0, SAMPLE - (time.monotonic() - start)))
        return share(before, cores())

    return end


def share(before: Cores | None, after: Cores | None) -> float | None:
    """The share of our cores' time, from `before` to `after`, that other processes used."""
    if before is None or after is None:
        return None
    all_seconds = sum(after.whole[core] - before.whole.get(core, 0.0) for core in after.ours & after.whole.keys())
    busy_seconds = sum(after.busy[core] - before.busy.get(core, 0.0) for core in after.ours & after.busy.keys())
    return (
        min(1.0, max(0.0, busy_seconds - (after.process - before.process)) / all_seconds) if all_seconds > 0 else None
    )


def is_loaded(others: float | None) -> bool | None:
    """Whether the others' share of the cores makes times uncertain; None where it is unknown."""
    return None if others is None else others >= LOADED


def warning(others: float | None) -> str:
    """A line about the others' share where it is large; else empty."""
    if others is None or others < LOADED:
        return ""
    return f"other processes used {others:.0%} of the cores meanwhile: trust the ratios more than the times"


def cores() -> Cores | None:
    """The busy seconds so far; None where there is no /proc/stat."""
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()]
        ticks_per_second = os.sysconf("SC_CLK_TCK")
        seconds = {
            int(name[3:]): [int(ticks) / ticks_per_second for ticks in columns[:8]]
            for name, *columns in lines
            if _core(name)
        }
        ours = frozenset(core for task in tasks for core in os.sched_getaffinity(task))
    except (OSError, AttributeError):  # not Linux, or a thread that has just ended
        return None
    busy = {core: sum(times) - times[3] - times[4] for core, times in seconds.items()}  # 3: idle, 4: waiting for a disk
    return Cores(busy, {core: sum(times) for core, times in seconds.items()}, ours, time.process_time())


def _core(name: str) -> bool:
    return name.startswith("cpu") and name[3:].isdecimal()
