"""The runs of figures as cells of one study, and a race of the models whose step times a figure shows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

from seqloom.analysis.origin import machine
from seqloom.core.progress import Say, Show
from seqloom.runs import layout
from seqloom.studies.race import Race, Times
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, RunCell, Study, scoring
from seqloom.training.preparation import identity
from seqloom_studies.paper.grid import Cell as Run
from seqloom_studies.paper.grid import Grid, Model
from seqloom_studies.paper.progress import progress
from seqloom_studies.paper.study import Study as Figure

ROUNDS = 5
"""turns of every model in a race"""


@final
class Loss(Row):
    """The held-out loss of a run after `batches`; None where its loss became NaN."""

    batches: int
    held_out: float | None
    failed: str | None = None


@final
@dataclass(frozen=True)
class FigureCell(RunCell):
    """A run of a figure. A longer run can be used too if it was scored after exactly these batches."""

    schema: ClassVar = Loss

    def check(self, folder: Path) -> None:
        """Raises ValueError for a run of other settings, and for a longer run without a score after these batches."""
        super().check(folder)
        progress(folder, self.config.training.batches)

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """Trains the batches that are missing."""
        if progress(folder, self.config.training.batches).is_finished:
            return self.read(layout.Run(folder), None)
        return super().run(folder, say, show)

    def read(self, run: layout.Run, failed: str | None) -> list[Loss]:
        """One row."""
        batches = self.config.training.batches
        if failed is not None:
            return [Loss(batches=batches, held_out=None, failed=failed)]
        return [Loss(batches=batches, held_out=progress(run.folder, batches).held_out[-1][1])]

    def text(self, rows: Sequence[Loss]) -> str:
        """The held-out loss."""
        (row,) = rows
        return row.failed or f"held-out loss {row.held_out:.4f}"


@final
@dataclass(frozen=True)
class Paper:
    """Figures of a grid, each with its number of seeds, and further runs whose generated texts are shown."""

    grid: Grid
    figures: Sequence[tuple[Figure, int]]
    writers: Sequence[Run] = ()
    raced: bool = True
    """whether the models of figures with step times are raced"""
    allow_drift: bool = False

    @property
    def study(self) -> Study:
        """The study; its folder is bound to one scale and one text."""
        return Study("paper", self.grid.settings, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """All runs without repetition, seed by seed; then the timings of the finished figures with step times."""
        runs = [run for figure, seeds in self.figures for run in figure.cells(seeds)]
        yield [self._cell(run) for run in dict.fromkeys([*runs, *self.writers])]
        races: list[Cell] = []
        for figure, seeds in self.figures if self.raced else ():
            if figure.kind == "points" and all(name(run) in results.rows for run in figure.cells(seeds)):
                models = dict.fromkeys(line.model for line in figure.lines)
                configs = {model.name: self.grid.config(model) for model in models}
                races.append(Race(f"races/{figure.name}", configs, machine(), rounds=ROUNDS))
        yield races

    def seconds(self, figure: Figure, results: Results) -> dict[Model, float]:
        """Seconds of a training step by model of a figure; {} where they were not timed."""
        rows = [row for row in results.rows.get(f"races/{figure.name}", []) if isinstance(row, Times)]
        step_seconds = {row.contender: row.step for row in rows if row.step is not None}
        return {line.model: step_seconds[line.model.name] for line in figure.lines if line.model.name in step_seconds}

    def _cell(self, run: Run) -> FigureCell:
        config, corpus = self.grid.config(run.model, run.seed), self.grid.corpus
        return FigureCell(
            name(run),
            config,
            identity(config, corpus),
            allow_drift=self.allow_drift,
            scoring=scoring(config, len(corpus.held_out)),
        )


def name(run: Run) -> str:
    """The folder of a run in the study's folder."""
    return f"cells/{run.name}"


def failures(results: Results) -> dict[str, str]:
    """The reasons why runs have no loss, by the cell's name in the figures."""
    diverged = {
        cell: row.failed
        for cell, rows in results.rows.items()
        for row in rows
        if isinstance(row, Loss) and row.failed is not None
    }
    return {cell.removeprefix("cells/"): why for cell, why in {**results.failed, **diverged}.items()}
