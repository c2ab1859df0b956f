"""A grid of probes: which synthetic tasks a mixer learns, and up to which difficulty.

    study = Recall((contender("attention"), contender("me")), ("mqar",), (1, 2, 3))
    rows = run(study.study, Path("runs/recall")).of(Answers)

Every cell trains a small model on one probe (`data/probes`) and tests it on held-out rows. All models read the same
rows in the same order; they differ in the mixer and in what the grid varies.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, final

from seqloom.core.device import choose_device
from seqloom.core.seeds import require_count
from seqloom.data.probes import probe
from seqloom.studies.candidates import Candidate
from seqloom.studies.probe_cell import Answers, ProbeCell
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Study, folder_name, require_distinct
from seqloom.training.config import RunConfig
from seqloom.training.memory import require_room
from seqloom.training.objectives.probe import SOLVED
from seqloom.training.preparation import identity
from seqloom.training.settings import resolve

BASE = ["data.source=stories", "model.dropout=0", "training.save_every=1000"]


@final
@dataclass(frozen=True)
class Recall:
    """The grid. `changes`: settings of all models, such as `model.position=none`.

    ValueError for repeated values and for settings that do not fit.
    """

    mixers: Sequence[Candidate]
    probes: Sequence[str]
    difficulties: Sequence[int]
    dims: Sequence[int] = (64,)
    depth: int = 2
    batches: int = 3000
    batch: int = 64
    lrs: Sequence[float] = (1e-3,)
    seeds: int = 1
    changes: Sequence[str] = ()
    test: str | None = None
    """settings of the probe in the test, such as length=160"""
    solved: float = SOLVED
    """the accuracy at which training ends, and which `climb` requires"""
    climb: bool = False
    """whether a difficulty is only for mixers that solved the one before, at the same width and their best rate"""
    folder: str = ""
    """a prefix of the names of all cells"""
    left_out: dict[tuple[str, str], str] | None = field(default=None, compare=False)
    """if given, gets the reason by (mixer, probe) where a mixer does not fit a probe; otherwise that is an error"""

    def __post_init__(self) -> None:
        grid: dict[str, Sequence[object]] = {
            "mixers": [mixer.name for mixer in self.mixers],
            "probes": self.probes,
            "difficulties": self.difficulties,
            "dims": self.dims,
            "learning rates": self.lrs,
        }
        require_distinct("recall", grid)
        require_count(self.seeds)

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other grids may be added."""
        return Study("recall", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells; with `climb` one stage per difficulty, the easiest first."""
        if not self.climb:
            yield list(self.cells())
            return
        all_cells = list(self.cells())
        easier = None
        for difficulty in sorted(self.difficulties):
            cells = [cell for cell in all_cells if cell.difficulty == difficulty]
            if easier is not None:
                solved = self._solved_cells(results, easier)
                cells = [cell for cell in cells if (cell.mixer, cell.title, cell.config.layered_model.dim) in solved]
            yield list(cells)
            easier = difficulty

    def _solved_cells(self, results: Results, difficulty: int) -> set[tuple[str, str, int]]:
        """The (mixer, probe, width) that were solved at a difficulty; for a plan, without rows, all of them.

        A training that ended before its last batch has solved its probe (`ProbeObjective.check`).
        """
        rows = [row for row in results.of(Answers) if row.distance is None and row.difficulty == difficulty]
        if not rows and not results.failed:
            return {(mixer.name, title, dim) for mixer in self.mixers for title in self.probes for dim in self.dims}
        return {(row.mixer, row.probe, row.dim) for row in rows if self._is_solved(row)}

    def _is_solved(self, row: Answers) -> bool:
        return row.accuracy is not None and (row.batches < self.batches or row.accuracy >= self.solved)

    def cells(self) -> Iterator[ProbeCell]:
        """All cells, the easiest first; all mixers of a setting come before the next setting."""
        combinations = product(self.probes, self.difficulties, range(self.seeds), self.dims, self.lrs, self.mixers)
        for title, difficulty, seed, dim, lr, mixer in combinations:
            try:
                config = self._config(title, difficulty, seed, dim, lr, mixer)
                require_room(config.model, choose_device(config.training.device), config.training)
            except ValueError as error:
                if self.left_out is None:
                    raise
                self.left_out[mixer.name, title] = str(error)
                continue
            folder = Path(self.folder) / f"{folder_name(title)}-{difficulty}" / mixer.name
            yield ProbeCell(
                name=(folder / f"dim-{dim}-lr-{lr:g}-seed-{seed}").as_posix(),
                config=config,
                identity=identity(config, None),
                allow_drift=True,
                mixer=mixer.name,
                title=title,
                difficulty=difficulty,
                probe=probe(title, difficulty),
            )

    def _config(self, title: str, difficulty: int, seed: int, dim: int, lr: float, mixer: Candidate) -> RunConfig:
        """The settings of the run of one combination."""
        probe(title, difficulty)  # raises the error of an unknown probe or difficulty
        objective: dict[str, Any] = {"kind": "probe", "probe": title, "difficulty": difficulty, "solved": self.solved}
        if self.test is not None:
            objective["test"] = self.test
        varied = [
            f"model.dim={dim}",
            f"model.ffn={2 * dim}",
            f"model.depth={self.depth}",
            f"training.batches={self.batches}",
            f"training.batch={self.batch}",
            f"training.lr={lr}",
            f"training.seed={seed}",
            f"training.objective={json.dumps(objective)}",  # JSON is YAML
        ]
        return resolve("demo", [*BASE, *varied, *self.changes, *mixer.changes])
