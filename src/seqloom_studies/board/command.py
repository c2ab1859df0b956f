"""`seqloom study board`: the options."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Jobs, Share, folder, out_folder
from seqloom.cli.time_limit import time_limited


@time_limited
def command(
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for the runs; the same command continues there", parser=folder, metavar="PATH"),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", "--source", help="a folder of texts with their authors (see data.division)")
    ] = None,
    text: Annotated[str, typer.Option(help="books, or code (Python sources, a text per project)")] = "books",
    plan: Annotated[
        bool, typer.Option("--plan", help="print the decisions, the price and the time, and train nothing")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            help="rows of finished runs, not repeated (results/comparison.jsonl)", parser=folder, metavar="PATH"
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="as --results, for tries: rows of a tree with changes too", parser=folder, metavar="PATH"),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="add finished runs of --out to --results, show the table, train nothing")
    ] = False,
    race: Annotated[
        bool, typer.Option("--race", help="time steps and tokens instead of training; needs an otherwise idle machine")
    ] = False,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. training.batches=100")
    ] = None,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Compares mixers at equal parameters, the five decisions fixed beforehand first; Ctrl-C saves."""
    from seqloom.cli.checked import require_settings
    from seqloom.core.config import suggestion
    from seqloom_studies.board.lineup import TEXTS

    if text not in TEXTS:
        raise ValueError(f"--text {text!r} is unknown; {suggestion(text, TEXTS)}")
    if scratch is not None and results is not None:
        raise ValueError("--scratch takes the place of --results: leave out one of them")
    if not merge:
        require_settings("board/small", change or [], data)
    from seqloom.studies.runner import Workers
    from seqloom_studies.board.actions import Options, act
    from seqloom_studies.board.rows import STORED

    options = Options(
        data, text, tuple(change or ()), scratch or results or STORED, scratch is not None, merge, race, plan
    )
    return act(options, out_folder(out, planned=plan), Workers(jobs, share=share))
