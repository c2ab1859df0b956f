"""`seqloom study paper`: the options."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Cluster, ClusterSet, Jobs, Planned, folder
from seqloom.cli.time_limit import time_limited


@time_limited
def command(
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
    plan: Planned = False,
    seeds: Annotated[int | None, typer.Option(help="runs of each model, with different weights and dropout")] = None,
    batches: Annotated[
        int | None, typer.Option(help="training batches of each run, in place of the scale's; may be raised later")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="only this model, e.g. she or attention:heads=32")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. training.compile=true")
    ] = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    cluster_set: ClusterSet = None,
    allow_drift: Annotated[bool, typer.Option(help="continue although torch, the device or backends changed")] = False,
) -> int:
    """Reproduces the Extractor paper's figures and tables; finished runs are not repeated; Ctrl-C saves."""
    from seqloom.studies.runner import Workers
    from seqloom_studies.paper.actions import Options, run_replication

    options = Options(scale, out, source, plan, seeds, batches, tuple(only or ()), tuple(change or ()), allow_drift)
    return run_replication(names, options, Workers(jobs, cluster, tuple(cluster_set or ())))
