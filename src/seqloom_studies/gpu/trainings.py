"""B1 to B5: trainings, by the studies that there are: the comparison, recall, the paper's figures.

Only which of their cells run, and in which order, is decided here; cells and rows are theirs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from seqloom.studies.candidates import parse_candidate
from seqloom.studies.recall import Recall
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Study
from seqloom.training.preparation import identity
from seqloom_studies.board.cell import BoardCell
from seqloom_studies.board.lineup import DECIDED
from seqloom_studies.board.study import Board
from seqloom_studies.gpu.ahead import prepare_ahead
from seqloom_studies.gpu.queue import Place
from seqloom_studies.paper.cells import Paper
from seqloom_studies.paper.grid import Grid
from seqloom_studies.paper.studies import STUDIES

Stages: TypeAlias = Callable[[Results], Iterator[Sequence[Cell]]]
ALIGNED = 64
"""The feed-forward's width is rounded to a multiple of this, 2% of the parameters at most: with an odd width the
products of matrices in bfloat16 take three times as long."""
FURTHER = ("rwkv7", "mamba2", "kda")
WIDE = ("attention", "gated_delta", "he", "gated_delta-3-1", "he-3-1")
WIDE_FOLDS = 3


def decisions(place: Place, code: str) -> Study:
    """B1: the comparison by its protocol, up to the result runs of the models of decisions."""
    board = _board(place)
    prepare_ahead(board.source, board.changes, place.sizes.folds)
    return Study("B1", board.shared_settings, lambda results: _decision_stages(board, place, results))


def longer_decisions(place: Place, code: str) -> Study:
    """B1 at 20 million tokens: the same result runs with as many batches as the longest of the slope."""
    board = _board(place)

    def stages(results: Results) -> Iterator[Sequence[Cell]]:
        yield from _decision_stages(board, place, results)
        models = board.models(results)
        for fold in range(place.sizes.folds):
            rates = {name: board.rate(models[name], results) for name in place.sizes.models or DECIDED}
            yield [
                board.tested_cell(models[name], fold, rate, place.sizes.long)
                for name, rate in rates.items()
                if rate is not None
            ]

    return Study("B1", board.shared_settings, stages)


def recall_study(place: Place, code: str) -> Study:
    """B2: probes at equal grids, the easiest first; rates and seeds are the same for all mixers."""
    sizes = place.sizes
    grids = [
        Recall(
            [parse_candidate(text) for text in sizes.probed],
            (probe,),
            (difficulty,),
            dims=(sizes.probe_dim,),
            depth=2 if probe == "mqar" else 1,
            batches=sizes.probe_batches,
            lrs=sizes.probe_rates,
            seeds=sizes.probe_seeds,
            solved=0.99,
            test=None if probe == "mqar" else "length=160",
            changes=[f"training.device={place.card.device}", *([] if probe == "mqar" else ["model.position=none"])],
            left_out={},
        )
        for probe, difficulty in sizes.probes
    ]
    return Study("B2", {}, lambda results: (list(grid.cells()) for grid in grids))


def headline(place: Place, code: str) -> Study:
    """B3: SHE, 32-head attention and HE at the paper's size."""
    sizes = place.sizes
    grid = _grid(place, sizes.figure_batches)
    figure = STUDIES["fig8"](grid).only(sizes.figure_models)
    return _as("B3", Paper(grid, [(figure, sizes.figure_seeds)], raced=False, allow_drift=True).study)


def wide(place: Place, code: str) -> Study:
    """B4: the comparison's models at dim 512: three rates by the validation text, then runs on folds."""
    sizes = place.sizes
    board = Board(str(place.books), (*sizes.board_wide, f"training.batches={sizes.wide_batches}"))

    def stages(results: Results) -> Iterator[Sequence[Cell]]:
        models = board.models(results)
        names = sizes.models or WIDE
        tried = {
            name: [_align_width(board.rate_cell(models[name], rate, "control"), board) for rate in sizes.wide_rates]
            for name in names
        }
        for position in range(len(sizes.wide_rates)):  # all models at one rate before one has two
            yield [cells[position] for cells in tried.values()]
        for fold in range(min(WIDE_FOLDS, place.sizes.folds)):
            yield [
                _align_width(board.tested_cell(models[name], fold, rate), board)
                for name, cells in tried.items()
                if (rate := _best(cells, board, results)) is not None
            ]

    return Study("B4", board.shared_settings, stages)


def figures(place: Place, code: str) -> Study:
    """B5: Figure 8 at the paper's number of batches, a model at a time; then Figures 7, 10 and 11."""
    grid = _grid(place, None)
    chosen = [(STUDIES[name](grid), 1) for name in place.sizes.figures]
    return _as("B5", Paper(grid, chosen, raced=False, allow_drift=True).study)


def further(place: Place, code: str) -> Study:
    """B5: rates and result runs of more mixers of the comparison."""
    board = _board(place)
    names = place.sizes.models or FURTHER
    return Study("B1", board.shared_settings, lambda results: _only(board, place, results, ("rate", "result"), names))


def _board(place: Place) -> Board:
    return Board(str(place.books), (*place.sizes.board, "training.precision=float32"))


def _decision_stages(board: Board, place: Place, results: Results) -> Iterator[Sequence[Cell]]:
    """The comparison's stages without the slope and without the models that are in no decision."""
    purposes = ("form", "rate", "control", "result")
    return _only(board, place, results, purposes, place.sizes.models or DECIDED)


def _only(
    board: Board, place: Place, results: Results, purposes: Sequence[str], models: Sequence[str]
) -> Iterator[Sequence[Cell]]:
    """The comparison's cells with these purposes and models; the forms of attention are models of no other use."""
    for stage in board.stages(results):
        cells = [cell for cell in stage if isinstance(cell, BoardCell) and cell.purpose in purposes]
        wanted = [cell for cell in cells if cell.contender in models or _is_form(cell, place)]
        yield [cell for cell in wanted if (cell.config.data.fold or 0) < place.sizes.folds]


def _is_form(cell: BoardCell, place: Place) -> bool:
    """Whether it chooses the form of attention, which tiny sizes do without."""
    return cell.purpose == "form" and place.sizes.models is None


def _align_width(cell: BoardCell, board: Board) -> BoardCell:
    """The cell with a feed-forward whose width is a multiple of `ALIGNED`."""
    model = cell.config.layered_model
    width = max(ALIGNED, ALIGNED * round(model.ffn_width / ALIGNED))
    config = cell.config.model_copy(update={"model": model.with_ffn_width(width)})
    return replace(cell, config=config, identity=identity(config, board.corpus(config.data.fold)))


def _best(cells: Sequence[BoardCell], board: Board, results: Results) -> float | None:
    """The rate with the lowest validation loss; None while a run has no row, or where all failed."""
    losses = {}
    for cell in cells:
        row = board.row(cell, results)
        if row is None:
            return None
        if row.validation is not None:
            losses[cell.config.training.lr] = row.validation
    return min(losses, key=lambda rate: losses[rate]) if losses else None


def _grid(place: Place, batches: int | None) -> Grid:
    own = place.sizes.scale.name == "tiny" and place.tokens is None  # that scale has stories
    source = None if own else str(place.tokens or place.books)
    return Grid(
        place.sizes.scale,
        place.runs,
        source=source,
        sets=[f"training.device={place.card.device}"],
        batches=batches,
    )


def _as(name: str, study: Study) -> Study:
    """The study under another name."""
    return Study(name, study.settings, study.stages)
