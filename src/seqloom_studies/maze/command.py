"""`seqloom study maze`: models that learn by playing."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Jobs, Share, folder, out_folder, sizes
from seqloom.cli.time_limit import time_limited

AGENTS = ("gtrxl", "xl", "lstm")


@time_limited
def command(
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for the models; the same command continues there", parser=folder, metavar="PATH"),
    ] = None,
    players: Annotated[
        list[str] | None,
        typer.Argument(help="gtrxl, xl, or a mixer as KIND or KIND:NAME=VALUE,…; default: gtrxl, xl, lstm"),
    ] = None,
    lengths: Annotated[str, typer.Option(help="steps from the cue to the turn, e.g. 10,50")] = "10,20,30,50",
    batches: Annotated[int, typer.Option(help="training batches of each model", min=1, max=10**6)] = 400,
    seeds: Annotated[int, typer.Option(help="models of each kind, with different initial weights and episodes")] = 1,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. model.dim=64")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="print the models, their memory and the time, and train nothing")
    ] = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Trains GTrXL, Transformer-XL and an LSTM by actor-critic on T-mazes of several lengths."""
    maze_lengths = sizes("--lengths", lengths)
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.maze import page
    from seqloom_studies.maze.study import Maze, agent

    study = Maze([agent(text) for text in players or AGENTS], maze_lengths, batches, seeds, change or [])
    return run_study(study.study, out_folder(out, planned=plan), Workers(jobs, share=share), page, planned=plan)
