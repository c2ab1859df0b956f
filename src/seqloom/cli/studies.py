"""Commands of `seqloom study`: early exits, the Extractor paper, the board. Loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import folder, out_folder


def paper(
    names: Annotated[
        list[str],
        typer.Argument(
            help="fig7 … fig11, table2 … table7, equal-params, equal-mul, equal-time, groups, controls, lr, or all"
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="full (the paper's settings), small (hours on two cores) or tiny")
    ] = "small",
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for runs and figures (runs/paper-SCALE)", parser=folder, metavar="PATH"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", "--data", help="a text file, a folder, .jsonl, .parquet, gutenberg-children, stories"),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="print the models, their memory and the time, and train nothing")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="runs of each model, with different weights and dropout")] = None,
    batches: Annotated[
        int | None, typer.Option(help="training batches of each run, in place of the scale's; may be raised later")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="only this model, e.g. she or attention:heads=32")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. training.compile=true")
    ] = None,
    jobs: Annotated[int, typer.Option(help="runs that train at once, each on a share of the cores")] = 1,
    cluster: Annotated[str | None, typer.Option(help="train as jobs through submitit: slurm or local")] = None,
    cluster_set: Annotated[
        list[str] | None, typer.Option(help="a setting of the jobs: slurm_partition=gpu, timeout_min=600")
    ] = None,
    allow_drift: Annotated[bool, typer.Option(help="continue although torch, the device or backends changed")] = False,
) -> int:
    """Reproduces the Extractor paper's figures and tables; finished runs are not repeated; Ctrl-C saves."""
    from seqloom.cli.paper import Options, replicated
    from seqloom.experiments.runner import Workers

    options = Options(scale, out, source, plan, seeds, batches, tuple(only or ()), tuple(change or ()), allow_drift)
    return replicated(names, options, Workers(jobs, cluster, tuple(cluster_set or ())))


def board(
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
        bool, typer.Option("--merge", help="add finished runs of --out to --results, show the board, train nothing")
    ] = False,
    race: Annotated[
        bool, typer.Option("--race", help="time steps and tokens instead of training; needs an otherwise idle machine")
    ] = False,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. training.batches=100")
    ] = None,
    jobs: Annotated[int, typer.Option(help="runs that train at once, each on a share of the cores")] = 1,
) -> int:
    """Compares mixers at equal parameters, the five decisions fixed beforehand first; Ctrl-C saves."""
    from seqloom.cli.checked import require_settings
    from seqloom.core.config import suggestion
    from seqloom.experiments.board.lineup import TEXTS

    if text not in TEXTS:
        raise ValueError(f"--text {text!r} is unknown; {suggestion(text, TEXTS)}")
    if scratch is not None and results is not None:
        raise ValueError("--scratch takes the place of --results: leave out one of them")
    if not merge:
        require_settings("board/small", change or [], data)
    from seqloom.cli.board import Options, act
    from seqloom.experiments.board.rows import STORED
    from seqloom.experiments.runner import Workers

    options = Options(
        data, text, tuple(change or ()), scratch or results or STORED, scratch is not None, merge, race, plan
    )
    return act(options, out_folder(out, planned=plan), Workers(jobs))
