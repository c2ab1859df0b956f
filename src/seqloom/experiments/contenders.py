"""What is compared: mixers by name with their settings, and models sized to equal another in one quantity.

contender("attention:heads=32")          the settings of a mixer in the preset
sized(peer, mixer, ...)                  the peer's model, resized to equal the mixer's in size, operations or time
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, ClassVar, final, get_args

from seqloom.analysis.match import By, Equal, Match, match
from seqloom.core.layered import LayeredConfig
from seqloom.core.progress import Say, Show
from seqloom.experiments.clock import clock
from seqloom.experiments.contender import Contender, contender
from seqloom.experiments.study import Cell, Row
from seqloom.training.config import RunConfig, TrainConfig

__all__ = ["Contender", "Size", "Sizing", "contender", "sized"]


def sized(
    peer: Contender,
    own: LayeredConfig,
    target: Contender,
    to: LayeredConfig,
    training: TrainConfig,
    *,
    equal: Equal,
    by: By | None = None,
) -> Contender:
    """The model `own` of `peer`, resized to equal the model `to` of `target`.

    Unless `by` is given, the size is changed that needs the smallest ratio: a network squeezed to a width of 1 would
    not be a fair rival. ValueError where no size brings them near enough, with what was tried.
    """
    candidates, refusals = [], []
    for size in (by,) if by else get_args(By):
        try:
            candidates.append(_match(own, to, training, equal, size))
        except ValueError as error:
            refusals.append(str(error))
    if not candidates:
        raise ValueError(f"{peer.name} cannot be sized for {target.name}: {'; '.join(refusals)}")
    least = min(candidates, key=lambda candidate: abs(log(candidate.after / candidate.before)))
    changes = (*peer.changes, f"model.{least.by}={least.after}")
    return Contender(f"{peer.name}.{equal}-of-{target.name}", changes, target.name, str(least))


@final
class Size(Row):
    """The settings that make the peer equal to a contender, and what moved, in words."""

    name: str
    changes: tuple[str, ...]
    matched_to: str
    matched: str


@final
@dataclass(frozen=True)
class Sizing(Cell):
    """Which size of the peer equals a contender. Measured once: a second timing would give another size."""

    alone: ClassVar = True
    schema: ClassVar = Size
    peer: Contender
    own: RunConfig
    target: Contender
    to: RunConfig
    equal: Equal
    by: By | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Both models, the quantity, and what may move."""
        models = {"own": self.own.model.model_dump(mode="json"), "to": self.to.model.model_dump(mode="json")}
        return {**models, "batch": self.own.training.batch, "equal": self.equal, "by": self.by}

    def run(self, folder: Path, say: Say, show: Show) -> list[Size]:
        """One row."""
        contender = sized(
            self.peer, self.own.layered, self.target, self.to.layered, self.own.training, equal=self.equal, by=self.by
        )
        assert contender.matched is not None
        return [
            Size(name=contender.name, changes=contender.changes, matched_to=self.target.name, matched=contender.matched)
        ]

    def text(self, rows: Sequence[Size]) -> str:
        """What moved."""
        return rows[0].matched


def _match(own: LayeredConfig, to: LayeredConfig, training: TrainConfig, equal: Equal, by: By) -> Match:
    if equal == "time":
        return match(own, to, equal=equal, by=by, row=clock(own, to, by, training))
    return match(own, to, equal=equal, by=by)
