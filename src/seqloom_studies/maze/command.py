"""`seqloom study maze`: models that learn by playing."""

from typing import Annotated

import typer

from seqloom.cli.options import Batches, Jobs, ModelChanges, ModelsOut, Planned, Share, out_folder, sizes
from seqloom.cli.time_limit import time_limited

AGENTS = ("gtrxl", "xl", "lstm")


@time_limited
def command(
    out: ModelsOut = None,
    players: Annotated[
        list[str] | None,
        typer.Argument(help="gtrxl, xl, or a mixer as KIND or KIND:NAME=VALUE,…; default: gtrxl, xl, lstm"),
    ] = None,
    lengths: Annotated[str, typer.Option(help="steps from the cue to the turn, e.g. 10,50")] = "10,20,30,50",
    batches: Batches = 400,
    seeds: Annotated[int, typer.Option(help="models of each kind, with different initial weights and episodes")] = 1,
    change: ModelChanges = None,
    plan: Planned = False,
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
