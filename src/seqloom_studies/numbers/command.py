"""`seqloom study numbers`: the options."""

from typing import Annotated

import typer

from seqloom.cli.options import Jobs, ModelChanges, ModelsOut, Planned, Seeds, Share, out_folder
from seqloom.cli.time_limit import time_limited

MIXERS = ("s5", "s4", "mamba:expand=1", "lstm", "he", "attention")
SOURCES = ("numbers:linear:4", "numbers:sines", "numbers:mackey-glass", "numbers:adding")


@time_limited
def command(
    out: ModelsOut = None,
    mixers: Annotated[
        list[str] | None, typer.Argument(help="KIND or KIND:NAME=VALUE,…; all get the parameters of the largest")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", help="numbers:NAME[:SIZE], or a .csv, .parquet or .npy file; may be repeated"),
    ] = None,
    batches: Annotated[int, typer.Option(help="training batches", min=1, max=10**6)] = 1000,
    lr: Annotated[
        list[float] | None,
        typer.Option("--lr", help="learning rate; may be repeated: the best of each mixer and series counts (0.003)"),
    ] = None,
    seeds: Seeds = 1,
    change: ModelChanges = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Measures how well models of equal parameters predict series of numbers, and draws their forecasts."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    names = [*(mixers or MIXERS)]
    require_contenders(names, "regressor/small", change or [])
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.numbers import page
    from seqloom_studies.numbers.study import NumbersStudy

    study = NumbersStudy(
        [parse_candidate(name) for name in names],
        source or SOURCES,
        batches=batches,
        lrs=lr or (3e-3,),
        seeds=seeds,
        changes=change or [],
    )
    return run_study(study.study, models_folder, Workers(jobs, share=share), page, planned=plan)
