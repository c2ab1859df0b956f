"""`seqloom study paper`: the Extractor paper's figures and tables by their numbers."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.folder import folder


def paper(
    names: Annotated[
        list[str],
        typer.Argument(
            help="fig7 … fig11, table2 … table7, equal-params, equal-mul, equal-time, groups, controls, lr, or all"
        ),
    ],
    scale: Annotated[str, typer.Option(help="full: the paper's settings; small: hours on two cores; tiny")] = "small",
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for cells and figures (runs/paper-SCALE)", parser=folder, metavar="PATH"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", "--data", help="a text file, a folder, .jsonl, .parquet, gutenberg-children, stories"),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="print what it will take, and train nothing")] = False,
    seeds: Annotated[int | None, typer.Option(help="runs of each model, with other weights and dropout")] = None,
    batches: Annotated[int | None, typer.Option(help="of each cell, in place of the scale's; more go on")] = None,
    only: Annotated[list[str] | None, typer.Option(help="this model alone, as she or attention:heads=32")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all, as training.compile=true")
    ] = None,
    jobs: Annotated[int, typer.Option(help="cells that train at once, with a share of the cores each")] = 1,
    cluster: Annotated[str | None, typer.Option(help="train as jobs through submitit: slurm or local")] = None,
    cluster_set: Annotated[
        list[str] | None, typer.Option(help="a setting of the jobs, as slurm_partition=gpu or timeout_min=600")
    ] = None,
    allow_drift: Annotated[bool, typer.Option(help="go on although torch, device or backends changed")] = False,
) -> int:
    """The Extractor paper's figures and tables; cells that are done are not trained again; Ctrl-C saves."""
    from seqloom.cli.replicating import Asked, replicated
    from seqloom.experiments.runner import Workers

    asked = Asked(scale, out, source, plan, seeds, batches, tuple(only or ()), tuple(change or ()), allow_drift)
    return replicated(names, asked, Workers(jobs, cluster, tuple(cluster_set or ())))
