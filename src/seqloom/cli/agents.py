"""`seqloom study agents` and `seqloom study maze`: models that learn from recorded episodes, and by playing."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import folder, out_folder, sizes

if TYPE_CHECKING:
    from seqloom.experiments.agents import Reached
    from seqloom.experiments.maze import Turned
    from seqloom.experiments.study import Row, Study

MIXERS = ("attention", "he")
AGENTS = ("gtrxl", "xl", "lstm")
Out = Annotated[
    Path | None,
    typer.Option(help="the folder for the models; the same command continues there", parser=folder, metavar="PATH"),
]
Batches = Annotated[int, typer.Option(help="training batches of each model", min=1, max=10**6)]
Seeds = Annotated[int, typer.Option(help="models of each kind, with different initial weights and episodes")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="a setting of all models, e.g. model.dim=64")]
Plan = Annotated[bool, typer.Option("--plan", help="print the models, their memory and the time, and train nothing")]
Jobs = Annotated[int, typer.Option(help="models that train at once, each on a share of the cores")]


def agents(
    out: Out = None,
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
    seeds: Seeds = 1,
    change: Changes = None,
    plan: Plan = False,
    jobs: Jobs = 1,
) -> int:
    """Decision Transformers next to behaviour cloning, by data, target return, context and delay of the rewards."""
    counts, windows = sizes("--episodes", episodes), sizes("--contexts", contexts)
    shares = [percent / 100 for percent in sizes("--best", best)]
    from seqloom.experiments.agents import Agents, Reached
    from seqloom.experiments.contender import contender
    from seqloom.report.agents import write

    contenders = [contender(text) for text in mixers or MIXERS]
    sources = data or ["CartPole-v1:mixed"]
    study = Agents(sources, contenders, counts, windows, shares, asked, played, batches, seeds, change or [])
    return _run(study.study, out_folder(out, planned=plan), plan, jobs, Reached, returns_table, write)


def maze(
    out: Out = None,
    players: Annotated[
        list[str] | None,
        typer.Argument(help="gtrxl, xl, or a mixer as KIND or KIND:NAME=VALUE,…; default: gtrxl, xl, lstm"),
    ] = None,
    lengths: Annotated[str, typer.Option(help="steps from the cue to the turn, e.g. 10,50")] = "10,20,30,50",
    batches: Batches = 400,
    seeds: Seeds = 1,
    change: Changes = None,
    plan: Plan = False,
    jobs: Jobs = 1,
) -> int:
    """Trains GTrXL, Transformer-XL and an LSTM by actor-critic on T-mazes of several lengths."""
    maze_lengths = sizes("--lengths", lengths)
    from seqloom.experiments.maze import Maze, Turned, agent
    from seqloom.report.maze import write

    study = Maze([agent(text) for text in players or AGENTS], maze_lengths, batches, seeds, change or [])
    return _run(study.study, out_folder(out, planned=plan), plan, jobs, Turned, turns_table, write)


def _run(
    study: "Study",
    out: Path,
    plan: bool,
    jobs: int,
    schema: "type[Row]",
    as_table: Callable[[Sequence[Any]], str],
    write: Callable[[Path], Path],
) -> int:
    """Runs a study, prints its rows as a table and writes its page; or prints the plan. Returns the exit code."""
    from seqloom.experiments.command import typed_command
    from seqloom.experiments.plan import plan as planned
    from seqloom.experiments.results import RESULTS
    from seqloom.experiments.runner import Workers, run
    from seqloom.experiments.study import Stopped
    from seqloom.experiments.summary import failures

    workers = Workers(jobs)
    if plan:
        print(planned(study, out, workers))
        return 0
    try:
        results = run(study, out, workers, command=typed_command())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    for line in failures(results):
        print(f"seqloom: {line}", file=sys.stderr)
    if rows := [row for row in results.of(schema) if getattr(row, "failed", None) is None]:
        print("\n" + as_table(rows))
        print(f"\nthe report is {write(out)}: open it in a browser; the rows are in {out / RESULTS}")
    return 2 if results.failed else 0


def returns_table(rows: "Sequence[Reached]") -> str:
    """The return of every row, and the recorded ones."""
    from seqloom.core.table import table

    head = ("episodes of", "learner", "mixer", "episodes", "context", "seed", "asked", "reached", "standard error")
    lines = [
        (f"{row.environment}:{row.policy}", row.learner, row.mixer, row.episodes, row.context, row.seed, row.asked,
         row.mean, row.error)
        for row in rows
    ]  # fmt: skip
    return table(head, lines)


def turns_table(rows: "Sequence[Turned]") -> str:
    """The return of each agent after its last batch, and when it first reached 95 %."""
    from seqloom.core.table import table
    from seqloom.experiments.maze import RIGHT

    runs: dict[tuple[int, str, int], list[Turned]] = {}
    for row in rows:
        runs.setdefault((row.length, row.agent, row.seed), []).append(row)
    lines = []
    for (length, name, seed), scores in runs.items():
        first_solved = next((row.batches for row in scores if (row.reached or 0) >= RIGHT), None)
        lines.append((length, name, seed, scores[-1].reached, scores[-1].steps, first_solved, scores[-1].batches))
    head = ("length", "agent", "seed", "right turns", "steps", f"batches to {RIGHT:.0%}", "batches")
    return table(head, lines)
