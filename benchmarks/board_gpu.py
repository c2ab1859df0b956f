"""The comparison's models at a size for a GPU: times of a training step, then trainings, one rate and one seed each.

    python benchmarks/board_gpu.py BOOKS attention he --steps             # times of training steps, in turns
    python benchmarks/board_gpu.py BOOKS attention he --batches 400       # trainings

dim 512, depth 12, context 1,024, 32,768 tokens a batch in bfloat16 under autocast, at most four passes over the books.
One seed decides nothing: the rows stand next to the comparison, not in it.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from harness import append, compare, gate

from seqloom.core.progress import silent
from seqloom.studies.noise import training_step
from seqloom.studies.perform import print_line
from seqloom.studies.results import Results
from seqloom.training.preparation import identity
from seqloom_studies.board.cell import BoardCell
from seqloom_studies.board.lineup import DECIDED
from seqloom_studies.board.study import Board

SIZE = (
    "model.dim=512",
    "model.depth=12",
    "model.context=1024",
    "model.ffn=1376",
    "data.disjoint=false",
    "training.batch=32",
    "training.precision=bf16",
    "training.save_every=100000",
)
ALIGNED = 16
"""The feed-forward's width is rounded to a multiple of this, 0.4% of the parameters at most: with an odd width the
products of matrices in bfloat16 take three times as long."""


def aligned(cell: BoardCell, board: Board) -> BoardCell:
    """The cell with a feed-forward whose width is a multiple of `ALIGNED`."""
    model = cell.config.layered
    width = ALIGNED * round(model.ffn / ALIGNED)
    config = cell.config.model_copy(update={"model": model.model_copy(update={"ffn": width})})
    return replace(cell, config=config, identity=identity(config, board.corpus(config.data.fold)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("books", help="a folder of texts whose files name their authors")
    parser.add_argument("models", nargs="*", default=DECIDED, help="models of the comparison; those of its decisions")
    parser.add_argument("--steps", action="store_true", help="time training steps in turns, and train nothing")
    parser.add_argument("--batches", type=int, default=400, help="optimizer steps of a training")
    parser.add_argument("--lr", type=float, default=1e-3, help="highest learning rate, after 5%% of the batches")
    parser.add_argument("--out", type=Path, default=Path("runs/board_gpu"), help="folder of the runs")
    chosen = parser.parse_args()
    gate("tests/ops/test_triton.py", "tests/ops/test_fla.py")
    schedule = f"training.schedule.warmup={max(1, chosen.batches // 20)}"
    board = Board(chosen.books, (*SIZE, f"training.batches={chosen.batches}", schedule))
    models = board.models(Results(chosen.out))
    cells = [aligned(board.tested_cell(models[name], 0, chosen.lr), board) for name in chosen.models]
    if chosen.steps:
        steps = {cell.contender: training_step(cell.config.model, cell.config.training) for cell in cells}
        append("board_gpu_steps", [{"sizes": SIZE, **compare(steps, peer=cells[0].contender, warm=3)}])
        return
    for cell in cells:
        folder = chosen.out / cell.name
        folder.mkdir(parents=True, exist_ok=True)
        rows = cell.run(folder, print_line, silent)
        append("board_gpu", [{"sizes": SIZE, **row.model_dump(mode="json")} for row in rows])


if __name__ == "__main__":
    main()
