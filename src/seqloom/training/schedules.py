"""The learning rate over a run: a share of `training.lr`, a pure function of the step.

With W steps of warm-up, N steps in all and step t counted from 0, the share is (t + 1) / W while t < W; after it

    constant   1
    cosine     f + (1 - f) (1 + cos πs) / 2        s = (t - W) / (N - W)
    linear     1 - (1 - f) s
    wsd        1 until t = N - M, then 1 - (1 - f) (t - N + M) / M        M = decay · N steps, rounded
    noam       √(W / (t + 1))

and f is `final`, which would be reached at t = N, one step after the last. W may be given as a share of N. A run can be
resumed at any step; one whose share depends on N is another run where N differs.

Source: Loshchilov and Hutter, arXiv:1608.03983, Eq. 5, for one cycle (cosine); Hu et al., MiniCPM, arXiv:2404.06395,
section 4.2 (wsd: warm-up, stable, decay; the decay is exponential there and linear here); Vaswani et al.,
arXiv:1706.03762, Eq. 3 (noam, where `lr` stands for D^-½ W^-½, the peak; their step is t + 1).
"""

import math
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, Self, TypeAlias, final

from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.config import Config


class Schedule(Config, ABC):
    """How the learning rate depends on the step."""

    uses_length: ClassVar[bool]
    """whether the share depends on the number of steps in all"""
    warmup: int | float = Field(
        0,
        ge=0,
        description="steps over which the learning rate rises from 0 to lr; 5%: so many steps by training.batches; "
        "below 1: as a fraction of the run",
    )

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if isinstance(self.warmup, float) and not (0 <= self.warmup < 1 and self.uses_length):
            raise ValueError(
                "warmup is a whole number of steps, or below 1 a share of the run with a cosine, linear or wsd"
            )
        return self

    def warmup_steps(self, steps: int) -> int:
        """W, of a run of `steps`."""
        return round(self.warmup * steps) if isinstance(self.warmup, float) else self.warmup

    def share(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, of a run of `steps`, as a share of `lr`: in [0, 1]."""
        warmup = self.warmup_steps(steps)
        if step < warmup:
            return (step + 1) / warmup
        return self.after_warmup(step, steps)

    @abstractmethod
    def after_warmup(self, step: int, steps: int) -> float:
        """The share at a step that is not part of the warm-up."""

    def check(self, steps: int) -> None:
        """Raises ValueError unless the warm-up fits into a run of this many steps."""
        if self.warmup_steps(steps) > steps:
            raise ValueError(
                f"a warm-up of {self.warmup:,} steps is longer than the run of {steps:,}: choose a smaller "
                "training.schedule.warmup or more training.batches"
            )

    def progress(self, step: int, steps: int) -> float:
        """How much of the run after the warm-up is done before a step: in [0, 1]."""
        warmup = self.warmup_steps(steps)
        return min((step - warmup) / max(steps - warmup, 1), 1.0)


@final
class Constant(Schedule):
    """The same learning rate at every step, after the warm-up."""

    kind: Literal["constant"] = "constant"
    uses_length: ClassVar = False

    @override
    def after_warmup(self, step: int, steps: int) -> float:
        """Always 1."""
        return 1.0


@final
class Cosine(Schedule):
    """Half a cosine from lr down to its `final` share."""

    kind: Literal["cosine"] = "cosine"
    uses_length: ClassVar = True
    final: float = Field(0.1, ge=0, le=1, description="fraction of lr at the end of the run")

    @override
    def after_warmup(self, step: int, steps: int) -> float:
        """f + (1 - f) (1 + cos πs) / 2."""
        s = self.progress(step, steps)
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * s)) / 2


@final
class Linear(Schedule):
    """A line from lr down to its `final` share."""

    kind: Literal["linear"] = "linear"
    uses_length: ClassVar = True
    final: float = Field(0.0, ge=0, le=1, description="fraction of lr at the end of the run")

    @override
    def after_warmup(self, step: int, steps: int) -> float:
        """1 - (1 - f) s."""
        s = self.progress(step, steps)
        return 1 - (1 - self.final) * s


@final
class WarmupStableDecay(Schedule):
    """Constant, then a line down to the `final` share over the last part of the run."""

    kind: Literal["wsd"] = "wsd"
    uses_length: ClassVar = True
    decay: float = Field(0.2, gt=0, le=1, description="fraction of the run over which the learning rate falls")
    final: float = Field(0.0, ge=0, le=1, description="fraction of lr at the end of the run")

    @override
    def after_warmup(self, step: int, steps: int) -> float:
        """1, then 1 - (1 - f) (t - N + M) / M."""
        falling = self._falling(steps)
        s = min(max((step - steps + falling) / falling, 0.0), 1.0)
        return 1 - (1 - self.final) * s

    @override
    def check(self, steps: int) -> None:
        """Raises ValueError unless warm-up and decay fit into a run of this many steps."""
        super().check(steps)
        falling = self._falling(steps)
        warmup = self.warmup_steps(steps)
        if warmup + falling > steps:
            raise ValueError(
                f"a warm-up of {warmup:,} steps and a decay over {falling:,} exceed the run of {steps:,}: "
                "choose a smaller training.schedule.warmup or training.schedule.decay"
            )

    def _falling(self, steps: int) -> int:
        return max(round(self.decay * steps), 1)


@final
class Noam(Schedule):
    """Falls with the inverse square root of the step, after a warm-up up to lr."""

    kind: Literal["noam"] = "noam"
    uses_length: ClassVar = False
    warmup: int | float = Field(
        4000,
        ge=1,
        description="steps over which the learning rate rises from 0 to lr; 4%: so many steps by training.batches",
    )

    @override
    def after_warmup(self, step: int, steps: int) -> float:
        """√(W / (t + 1))."""
        return math.sqrt(self.warmup / (step + 1))


AnySchedule: TypeAlias = Annotated[Constant | Cosine | Linear | WarmupStableDecay | Noam, Field(discriminator="kind")]
