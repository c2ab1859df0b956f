"""`seqloom evaluate`: the options, and which of them go together; loads nothing heavy before it runs."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from seqloom.cli.options import COLUMN, TEXT, Knn, Run, Search, given_options, numbers


def evaluate(
    run: Run,
    data: Annotated[
        str | None, typer.Option(help=f"the text to predict: {TEXT}, stories; for an agent episodes:ENV:POLICY")
    ] = None,
    batch: Annotated[int, typer.Option(help="windows (or episodes) computed at once", min=1)] = 64,
    stride: Annotated[
        int | None, typer.Option(help="distance between overlapping windows, in tokens; default: no overlap")
    ] = None,
    memory: Annotated[
        Literal["none", "carry"] | None,
        typer.Option(help="carry: keep the state from window to window of a document; default: as in training"),
    ] = None,
    memory_length: Annotated[
        int | None,
        typer.Option(help="with carry: tokens of memory per layer; default: as in training", min=1, max=65536),
    ] = None,
    column: Annotated[str | None, typer.Option(help=f"{COLUMN}; default: that of the run's data")] = None,
    pseudo: Annotated[
        bool, typer.Option("--pseudo", help="for an encoder: mask one token at a time and predict it from all others")
    ] = False,
    knn: Knn = None,
    search: Search = None,
    returns: Annotated[
        str | None,
        typer.Option(
            help="for a Decision Transformer that reads a return, in place of --data: target returns to play for, "
            "e.g. 50,200,500"
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(help="episodes to play per return, or in all where the model reads no return (20)", min=1),
    ] = None,
    tasks: Annotated[
        Path | None,
        typer.Option(
            help="in place of --data: a folder of lm-eval's tasks, YAML and JSON lines; needs 'seqloom[eval]'"
        ),
    ] = None,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object, which has the loss by position too")
    ] = False,
) -> None:
    """Scores a model on a text: loss in nats per token, perplexity, bits per byte; every token is predicted once.

    An agent is scored on --data episodes:ENV:POLICY, or plays: with --returns if it reads a return
    (decision/cartpole), else with --episodes or no option (decision/maze, and any run with model.returns=none).
    """
    options: dict[str, Any] = {"stride": stride, "memory": memory, "memory_length": memory_length}
    options |= {"column": column, "pseudo": pseudo, "knn": knn, "search": search}
    text_options = given_options({**options, "pseudo": pseudo or None})
    if tasks is not None:
        unused = given_options({"data": data, "returns": returns, "episodes": episodes}) | text_options
        if unused:
            raise ValueError(f"--tasks takes the place of a text: leave out --{next(iter(unused)).replace('_', '-')}")
        from seqloom.cli.work.tasks import score_tasks

        print(score_tasks(run, tasks, batch, step, as_json))
        return
    play = returns is not None or episodes is not None
    if play:
        unused = given_options({"data": data}) | text_options
        if unused:
            option = "--episodes" if returns is None else "--returns"
            raise ValueError(f"{option} plays episodes: leave out --{next(iter(unused)).replace('_', '-')}")
    from seqloom.cli.work.episodes import acts, play_episodes, plays_unasked, scored_on_episodes

    play = play or (data is None and plays_unasked(run))
    if text_options and (play or (data is not None and acts(run))):
        name = next(iter(text_options)).replace("_", "-")
        raise ValueError(f"--{name} is for text, but {run} plays episodes: leave it out")
    if play:
        target_returns = None if returns is None else numbers("--returns", returns, "50,200,500")
        print(play_episodes(run, target_returns, 20 if episodes is None else episodes, batch, step, as_json))
        return
    if data is None:
        raise ValueError("Missing option '--data': a text; a Decision Transformer may have --returns instead")
    if acts(run):
        print(scored_on_episodes(run, data, batch, step, as_json))
        return
    from seqloom.runs.layout import find_run
    from seqloom.training.objectives import objective_of

    task = objective_of(find_run(run)).learned_task
    own_options = {"numbers": {"column"}, "patches": set[str]()}
    if task in own_options:
        for name in text_options.keys() - own_options[task]:
            raise ValueError(f"--{name.replace('_', '-')} is for text, but {run} reads {task}: leave it out")
    if task == "numbers":
        from seqloom.cli.work.numbers import score_numbers

        print(score_numbers(run, data, batch, column, step, as_json))
        return
    if task == "patches":
        from seqloom.cli.work.patches import score_patches

        print(score_patches(run, data, batch, step, as_json))
        return
    from seqloom.cli.work.scores import score_text

    print(score_text(run, data, batch=batch, **options, step=step, as_json=as_json))
