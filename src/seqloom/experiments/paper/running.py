"""Cells one after another, in this process. A cell that fails is told and passed over; the others go on."""

from collections.abc import Sequence
from functools import partial

from seqloom.experiments.live_table import LiveTable
from seqloom.experiments.paper.grid import Cell, Grid
from seqloom.experiments.paper.standing import standing
from seqloom.experiments.study import Stopped
from seqloom.training.train import train

Failures = dict[str, str]
"""why a cell failed, by its name"""


def unfinished(grid: Grid, cells: Sequence[Cell]) -> list[Cell]:
    """The cells that are not done yet. ValueError where a cell's folder holds a run of other settings."""
    for cell in cells:
        grid.check(cell)
    return [cell for cell in cells if not standing(grid.folder(cell), asked(grid, cell)).finished]


def asked(grid: Grid, cell: Cell) -> int:
    """The batches that a cell is to be trained for."""
    return grid.config(cell.model).training.batches


def one_by_one(grid: Grid, cells: Sequence[Cell], *, allow_drift: bool = False) -> Failures:
    """Trains the cells, each from where it stopped. `Stopped` when a signal asks for it: the run is saved."""
    failed: Failures = {}
    with LiveTable({cell.name: asked(grid, cell) for cell in cells}) as board:
        for cell in cells:
            try:
                outcome = train(
                    grid.config(cell.model, cell.seed), grid.folder(cell),
                    allow_drift=allow_drift, say=board.say, show=partial(board.show, cell.name),
                )  # fmt: skip
            except ValueError as error:  # a cost that exploded, a folder in use: of this cell alone
                failed[cell.name] = str(error)
                board.say(f"{cell.name} failed: {error}")
                continue
            if outcome.asked is not None:
                raise Stopped(cell.name, 128 + int(outcome.asked))
            loss = standing(outcome.run.folder, asked(grid, cell)).held_out[-1][1]
            board.done(cell.name, f"held-out loss {loss:.4f}")
    return failed
