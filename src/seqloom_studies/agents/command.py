"""`seqloom study agents`: models that learn from recorded episodes."""

from typing import Annotated

import typer

from seqloom.cli.options import Batches, Jobs, ModelChanges, ModelsOut, Planned, Share, out_folder, sizes
from seqloom.cli.time_limit import time_limited

MIXERS = ("attention", "he")


@time_limited
def command(
    out: ModelsOut = None,
    mixers: Annotated[
        list[str] | None, typer.Argument(help="KIND or KIND:NAME=VALUE,…; default: attention and he")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="training episodes, as ENV:POLICY; default: CartPole-v1:mixed")
    ] = None,
    episodes: Annotated[str, typer.Option(help="numbers of recorded episodes, e.g. 10,100")] = "10,30,100,300",
    contexts: Annotated[str, typer.Option(help="steps of a window, e.g. 1,10,50")] = "1,2,5,10,20,50",
    best: Annotated[
        str, typer.Option(help="behaviour cloning on this percentage of the episodes, the best")
    ] = "10,100",
    asked: Annotated[int, typer.Option(help="number of target returns, between the lowest and highest recorded")] = 6,
    played: Annotated[int, typer.Option(help="episodes played for each target return", min=1, max=10**4)] = 20,
    batches: Batches = 300,
    seeds: Annotated[int, typer.Option(help="models of each kind, with different initial weights and episodes")] = 1,
    change: ModelChanges = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Decision Transformers next to behaviour cloning, by data, target return, context and delay of the rewards."""
    counts, windows = sizes("--episodes", episodes), sizes("--contexts", contexts)
    shares = [percent / 100 for percent in sizes("--best", best)]
    from seqloom.studies.candidate import parse_candidate
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.agents import page
    from seqloom_studies.agents.study import Agents

    contenders = [parse_candidate(text) for text in mixers or MIXERS]
    sources = data or ["CartPole-v1:mixed"]
    study = Agents(sources, contenders, counts, windows, shares, asked, played, batches, seeds, change or [])
    return run_study(study.study, out_folder(out, planned=plan), Workers(jobs, share=share), page, planned=plan)
