"""Training steps timed at several sizes of a model, next to another model: what `match(equal="time")` chooses from.

    ratio(size) = median over rounds of  seconds(config at size) / seconds(to, same round)

Times belong to one machine and one process. `seqloom.studies.match_time` makes them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final
from uuid import uuid4

from seqloom.analysis.measure import Timing
from seqloom.analysis.origin import machine
from seqloom.analysis.sizes import By, title
from seqloom.core.layered import LayeredConfig

_TOKEN = uuid4().hex


def process() -> str:
    """A name of this process that no fork and no later process has."""
    return f"{os.getpid()}-{_TOKEN}"


@final
@dataclass(frozen=True)
class TimedSize:
    """The training steps of a model at one size."""

    seconds: Timing
    ratio: Timing
    """multiples of the other model's step of the same round"""


@final
@dataclass(frozen=True)
class TimedSizes:
    """A race of training steps: `config` at several sizes `by`, against `to`."""

    config: LayeredConfig
    to: LayeredConfig
    by: By
    other: Timing
    """the steps of `to`, of all rounds"""
    sizes: Mapping[int, TimedSize]
    machine: str = field(default_factory=machine)
    process: str = field(default_factory=process)

    @property
    def nearest(self) -> int:
        """The size whose median ratio is nearest to 1, among those timed in the most rounds; of two, the smaller."""
        rounds = max(len(timed.ratio.times) for timed in self.sizes.values())
        candidates = (size for size, timed in self.sizes.items() if len(timed.ratio.times) == rounds)
        return min(candidates, key=lambda size: (abs(self.sizes[size].ratio.median - 1), size))

    def seconds(self, size: int) -> float:
        """A step at that size: its median ratio times the other's median, so that drift between rounds cancels."""
        return self.sizes[size].ratio.median * self.other.median

    def require(self, config: LayeredConfig, to: LayeredConfig, by: By) -> None:
        """ValueError unless these times are of those two models and that size, measured here, by this process."""
        advice = "time them again with seqloom.studies.match_time.clock"
        if (self.config, self.to) != (config, to):
            asked = f"{title(config)} against {title(to)}"
            timed = f"{title(self.config)} against {title(self.to)}"
            problem = f"{timed}, not of {asked}" if asked != timed else f"{timed} at other settings"
            raise ValueError(f"the times are of {problem}: {advice}")
        if self.by != by:
            raise ValueError(f"the times are of sizes of {self.by}, not of {by}: {advice}")
        if self.machine != machine():
            raise ValueError(f"the times are of another machine ({self.machine}; here is {machine()}): {advice}")
        if self.process != process():
            raise ValueError(
                f"the times are of another process, when the load of the machine may have differed: {advice}"
            )
        if not self.sizes:
            raise ValueError(f"no size of {title(config)} was timed: {advice}")
