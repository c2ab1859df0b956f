"""`seqloom study pictures`: the options."""

from typing import Annotated

import typer

from seqloom.cli.options import Jobs, ModelChanges, ModelsOut, Planned, Seeds, Share, out_folder
from seqloom.cli.time_limit import time_limited

MIXERS = (
    "sparse:length=16",
    "longformer:window=32",
    "image:dimensions=2,width=16,rows=4,columns=4,above=4,side=4",
    "attention:heads=4",
)
"""strided attention, a window of as many tokens, rectangles, and all tokens"""


@time_limited
def command(
    out: ModelsOut = None,
    mixers: Annotated[
        list[str] | None, typer.Argument(help="KIND or KIND:NAME=VALUE,…; default: strided, a window, rectangles, all")
    ] = None,
    source: Annotated[
        str, typer.Option("--source", help="images:KIND[:SIZE[:COUNT[:SEED]]][:blocks], or images:./FOLDER")
    ] = "images:digits",
    batches: Annotated[int, typer.Option(help="training batches", min=1, max=10**6)] = 1500,
    seeds: Seeds = 1,
    change: ModelChanges = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Measures how well models predict pictures, in bits per dimension, and shows what they draw."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    names = [*(mixers or MIXERS)]
    require_contenders(names, "pictures/small", change or [])
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.pictures import page
    from seqloom_studies.pictures.study import PicturesStudy

    candidates = [parse_candidate(name) for name in names]
    study = PicturesStudy(candidates, source, batches=batches, seeds=seeds, changes=change or [])
    return run_study(study.study, models_folder, Workers(jobs, share=share), page, planned=plan)
