"""`seqloom study figures`: the options."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import ModelChanges, folder, out_folder
from seqloom.cli.time_limit import time_limited

MIXERS = (
    "attention:heads=4",
    "identity",
    "rnn",
    "lstm",
    "gru",
    "s4",
    "mamba",
    "rwkv",
    "gated_delta",
    "performer",
    "he",
)


@time_limited
def command(
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for the points; the same command continues there", parser=folder, metavar="PATH"),
    ] = None,
    mixers: Annotated[
        list[str] | None, typer.Argument(help="KIND or KIND:NAME=VALUE,…; default: attention and ten others")
    ] = None,
    figure: Annotated[
        list[str] | None, typer.Option("--figure", help="gradients, features or times; may be repeated; default: all")
    ] = None,
    length: Annotated[int, typer.Option(help="tokens of a row, the longest of times", min=2, max=2**16)] = 128,
    change: ModelChanges = None,
    plan: Annotated[bool, typer.Option("--plan", help="print the measurements, and measure nothing")] = False,
) -> int:
    """Measures figures of the source texts: gradients by distance, errors of random features, times by length."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    names = [*(mixers or MIXERS)]
    require_contenders(names, "tiny", change or [])
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.figures import page
    from seqloom_studies.figures.study import FIGURES, figures

    study = figures(figure or FIGURES, [parse_candidate(name) for name in names], length=length, changes=change or [])
    return run_study(study, models_folder, Workers(1), page, planned=plan)
