"""`seqloom study question`: the question before the text, or after it."""

from typing import Annotated

import typer

from seqloom.cli.options import Jobs, ModelChanges, ModelsOut, Planned, Seeds, Share, out_folder
from seqloom.cli.time_limit import time_limited

MIXERS = ("attention", "rwkv", "rwkv7", "gated_delta", "mamba2", "gru", "he")
"""what is trained unless mixers are named"""


@time_limited
def command(
    out: ModelsOut = None,
    mixers: Annotated[
        list[str] | None, typer.Argument(help="KIND or KIND:NAME=VALUE,…; default: attention and six others")
    ] = None,
    pairs: Annotated[int, typer.Option(help="pairs of key and value in the list", min=1, max=2**15)] = 16,
    batches: Annotated[
        int, typer.Option(help="largest number of training batches; a solved probe ends earlier", min=1, max=10**6)
    ] = 3000,
    lr: Annotated[
        list[float] | None,
        typer.Option("--lr", help="learning rate; may be repeated: the best of each mixer and order counts"),
    ] = None,
    seeds: Seeds = 1,
    change: ModelChanges = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Measures how often models find a value in a list when the question stands before the list, and after it."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    names = [*(mixers or MIXERS)]
    require_contenders(names, "demo", ["data.source=stories", *(change or [])])
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.question import page
    from seqloom_studies.question.study import question

    study = question(
        [parse_candidate(name) for name in names],
        pairs=pairs,
        batches=batches,
        lrs=lr or (1e-3, 3e-3),
        seeds=seeds,
        changes=change or [],
    )
    return run_study(study, models_folder, Workers(jobs, share=share), page, planned=plan)
