"""`seqloom study board`: the replacements of attention at equal parameters, each at its best learning rate."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.folder import folder


def board(
    out: Annotated[
        Path,
        typer.Option(help="the folder for the runs; the same command goes on there", parser=folder, metavar="PATH"),
    ],
    data: Annotated[
        str | None, typer.Option("--data", "--source", help="a folder of texts whose authors are named")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="print decisions, price and time, and train nothing")] = False,
    results: Annotated[
        Path | None,
        typer.Option(help="rows of runs that are not run again (results/board.jsonl)", parser=folder, metavar="PATH"),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="add the finished runs in --out to --results, show the board, train nothing")
    ] = False,
    race: Annotated[
        bool, typer.Option("--race", help="time steps and tokens instead, while the machine does nothing else")
    ] = False,
    change: Annotated[list[str] | None, typer.Option("--set", help="a setting of all, as training.batches=100")] = None,
    jobs: Annotated[int, typer.Option(help="runs that train at once, with a share of the cores each")] = 1,
) -> int:
    """Trains all rows of the board, those of its five decisions first; Ctrl-C saves, and the same command goes on."""
    from seqloom.cli.checked import require_settings

    if not merge:
        require_settings("board/small", change or [], data)
    from seqloom.cli.boarding import Asked, boarded
    from seqloom.experiments.board.rows import STORED
    from seqloom.experiments.runner import Workers

    asked = Asked(data, tuple(change or ()), results or STORED, merge, race, plan)
    return boarded(asked, out, Workers(jobs))
