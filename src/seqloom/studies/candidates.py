"""Contenders that are resized to equal another one in parameters, operations or time.

contender("attention:heads=32")          a mixer in the model of the preset
sized(peer, model, target, to, ...)      the peer with its `model` resized to equal the model `to` of the target
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, ClassVar, final, get_args

from typing_extensions import override

from seqloom.analysis.match import By, Equal, Match, match
from seqloom.core.layered import LayeredConfig
from seqloom.core.progress import Say, Show
from seqloom.runs.code import Codes, merge_codes
from seqloom.studies.candidate import Candidate, parse_candidate
from seqloom.studies.match_time import match_time
from seqloom.studies.study import Cell, Row
from seqloom.training.config import RunConfig, TrainConfig

__all__ = ["Candidate", "Size", "Sizing", "parse_candidate", "resize_candidate"]


def resize_candidate(
    peer: Candidate,
    model: LayeredConfig,
    target: Candidate,
    to: LayeredConfig,
    training: TrainConfig,
    *,
    equal: Equal,
    by: By | None = None,
) -> Candidate:
    """The contender `peer` with its `model` resized to equal the model `to` of `target` in the quantity `equal`.

    `by` is the size that changes; if it is not given, it is the one that must change by the smallest ratio, since a
    network with a width of 1 would not be a fair rival. ValueError, with what was tried, where no size is near enough.
    """
    candidates = []
    errors = []
    for size in (by,) if by else get_args(By):
        try:
            candidates.append(_match(model, to, training, equal, size))
        except ValueError as error:
            errors.append(str(error))
    if not candidates:
        raise ValueError(f"{peer.name} cannot be sized for {target.name}: {'; '.join(errors)}")
    smallest_change = min(candidates, key=lambda candidate: abs(log(candidate.after / candidate.before)))
    changes = (*peer.changes, f"model.{smallest_change.by}={smallest_change.after}")
    return Candidate(f"{peer.name}.{equal}-of-{target.name}", changes, target.name, str(smallest_change))


@final
class Size(Row):
    """The settings that make the peer equal to a contender, and what changed, in words."""

    name: str
    changes: tuple[str, ...]
    matched_to: str
    matched: str


@final
@dataclass(frozen=True)
class Sizing(Cell):
    """Finds the size of the peer that equals a contender. It runs once: a second timing would give another size."""

    alone: ClassVar = True
    schema: ClassVar = Size
    peer: Candidate
    config: RunConfig
    target: Candidate
    to: RunConfig
    equal: Equal
    by: By | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Both models, the quantity, and the size that may change."""
        models = {"own": self.config.model.model_dump(mode="json"), "to": self.to.model.model_dump(mode="json")}
        return {**models, "batch": self.config.training.batch, "equal": self.equal, "by": self.by}

    @property
    @override
    def code(self) -> Codes:
        return merge_codes([self.config, self.to])

    def run(self, folder: Path, say: Say, show: Show) -> list[Size]:
        """One row."""
        contender = resize_candidate(
            self.peer,
            self.config.layered_model,
            self.target,
            self.to.layered_model,
            self.config.training,
            equal=self.equal,
            by=self.by,
        )
        assert contender.matched is not None
        return [
            Size(name=contender.name, changes=contender.changes, matched_to=self.target.name, matched=contender.matched)
        ]

    def text(self, rows: Sequence[Size]) -> str:
        """What changed."""
        return rows[0].matched


def _match(model: LayeredConfig, to: LayeredConfig, training: TrainConfig, equal: Equal, by: By) -> Match:
    if equal == "time":
        return match(model, to, equal=equal, by=by, row=match_time(model, to, by, training))
    return match(model, to, equal=equal, by=by)
