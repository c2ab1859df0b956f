"""Resizes attention to equal other models of the grid.

First the width of the feed-forward network changes; where no width is small enough, it changes with one layer fewer,
and so on. Only where that fails `dim` changes, which also changes the embeddings and the head. For equal times the
search is a cell of the study, saved in OUT/sizes: a second measurement would give another size, and so other settings
than those of runs that have been trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from typing_extensions import override

from seqloom.analysis.match import By, Equal
from seqloom.core.progress import Say, Show
from seqloom.runs.code import Codes, merge_codes
from seqloom.studies.candidates import Candidate, parse_candidate, resize_candidate
from seqloom.studies.runner import run
from seqloom.studies.study import Cell, Row, Study
from seqloom.training.config import RunConfig
from seqloom_studies.paper.grid import Grid


@final
class Resized(Row):
    """The settings that make the peer equal, and what changed in words; no settings where no size is near enough."""

    changes: tuple[str, ...]
    says: str


@final
@dataclass(frozen=True)
class Way:
    """A way to resize the peer: the size that changes, and the reduced depth."""

    by: By
    changes: tuple[str, ...]
    config: RunConfig
    words: str


@final
@dataclass(frozen=True)
class Resizing(Cell):
    """The search for the size of the peer that equals a target; the first way that succeeds counts."""

    alone: ClassVar = True
    schema: ClassVar = Resized
    peer: Candidate
    target: Candidate
    to: RunConfig
    ways: tuple[Way, ...]
    equal: Equal

    @property
    def settings(self) -> dict[str, Any]:
        """The models, the batch and the quantity."""
        models = [self.to, *(way.config for way in self.ways)]
        sizes = [config.model.model_dump(mode="json") for config in models]
        return {"models": sizes, "batch": self.to.training.batch, "equal": self.equal}

    @property
    @override
    def code(self) -> Codes:
        return merge_codes([self.to, *(way.config for way in self.ways)])

    def run(self, folder: Path, say: Say, show: Show) -> list[Resized]:
        """One row."""
        return [self.search()]

    def text(self, rows: Sequence[Resized]) -> str:
        """What changed."""
        return rows[0].says

    def search(self) -> Resized:
        """The result of the first way that succeeds, or the reason why the first way failed where none does."""
        errors = []
        for way in self.ways:
            config = way.config
            try:
                resized_peer = resize_candidate(
                    self.peer,
                    config.layered_model,
                    self.target,
                    self.to.layered_model,
                    config.training,
                    equal=self.equal,
                    by=way.by,
                )
            except ValueError as error:
                errors.append(str(error))
            else:
                changes = resized_peer.changes[len(self.peer.changes) :]
                return Resized(changes=(*way.changes, *changes), says=f"{way.words}{resized_peer.matched}")
        return Resized(changes=(), says=errors[0])


def resize_peer(grid: Grid, peer: str, targets: Sequence[str], equal: Equal) -> dict[str, Resized]:
    """The sizes of `peer` that equal the targets, by target.

    ValueError where a measurement failed; `Stopped` where a signal ended it.
    """
    cells = {target: _cell(grid, peer, target, equal) for target in targets}
    if equal != "time":  # computed from the price, so there is no measurement to save
        return {target: cell.search() for target, cell in cells.items()}
    results = run(Study("paper", grid.settings, lambda results: iter([list(cells.values())])), grid.out)
    for name, why in results.failed.items():
        raise ValueError(f"{name} failed: {why}")
    return {
        target: row for target, cell in cells.items() for row in results.rows[cell.name] if isinstance(row, Resized)
    }


def _cell(grid: Grid, peer: str, target: str, equal: Equal) -> Resizing:
    """The search for the size of `peer` that equals `target`, with all ways to resize it."""
    peer_config, target_config = (grid.config(grid.model(text)) for text in (peer, target))
    depth = peer_config.layered_model.depth
    ways: list[Way] = []
    for layers in range(depth, 0, -1):
        changes = () if layers == depth else (f"model.depth={layers}",)
        words = f"depth {depth} → {layers}; " if changes else ""
        ways.append(Way("ffn", changes, grid.config(grid.model(peer, *changes)), words))
    ways.append(Way("dim", (), peer_config, ""))
    target_contender = parse_candidate(target)
    name = f"sizes/{equal}-of-{target_contender.name}"
    return Resizing(name, parse_candidate(peer), target_contender, target_config, tuple(ways), equal)
