"""`seqloom study patches`: the options."""

from typing import Annotated

import typer

from seqloom.cli.options import Jobs, ModelChanges, ModelsOut, Planned, Seeds, Share, out_folder
from seqloom.cli.time_limit import time_limited

MIXERS = ("mlp_mixer", "linformer:k=4", "fnet", "attention:heads=4")


@time_limited
def command(
    out: ModelsOut = None,
    mixers: Annotated[
        list[str] | None,
        typer.Argument(help="KIND or KIND:NAME=VALUE,…; default: mlp_mixer, linformer, fnet and attention"),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", help="images:KIND[:SIZE[:COUNT[:SEED]]], or images:./FOLDER; may be repeated"),
    ] = None,
    batches: Annotated[int, typer.Option(help="training batches", min=1, max=10**6)] = 1000,
    seeds: Seeds = 1,
    change: ModelChanges = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Measures how well models classify pictures by their patches, against chance."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    names = [*(mixers or MIXERS)]
    require_contenders(names, "pictures/patches", change or [])
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.patches import page
    from seqloom_studies.patches.study import PatchesStudy

    candidates = [parse_candidate(name) for name in names]
    sources = source or ["images:digits"]
    study = PatchesStudy(candidates, sources, batches=batches, seeds=seeds, changes=change or [])
    return run_study(study.study, models_folder, Workers(jobs, share=share), page, planned=plan)
