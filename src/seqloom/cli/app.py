"""The commands. Each imports what it needs when it runs, so that `--help` answers without loading torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.agents import agents, maze
from seqloom.cli.compare import bench, compare
from seqloom.cli.data import data
from seqloom.cli.extrapolate import extrapolate
from seqloom.cli.knn import knn
from seqloom.cli.markov_gap import markov_gap
from seqloom.cli.options import Run, folder
from seqloom.cli.recall import recall
from seqloom.cli.studies import board, calibrate, exits, paper, thresholds
from seqloom.cli.text import evaluate, generate
from seqloom.cli.train import train
from seqloom.cli.verify import verify

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Can self-attention be replaced, with what, and at what price? Every command takes --debug, "
    "and --try-anyway where it needs more memory than there is.",
)


def _version(asked: bool) -> None:
    if asked:
        from seqloom.cli.environment import versions

        print(versions())
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="seqloom, torch, device, native code")
    ] = False,
) -> None:
    """Holds the options of `seqloom` itself; the help is the app's."""
    from seqloom.core.launch import size

    if size() > 1 and context.invoked_subcommand != "train":
        raise typer.BadParameter(f"torchrun starts {size()} processes, and only `seqloom train` shares its work")


Options = {"allow_extra_args": True, "ignore_unknown_options": True}


def list_mixers(
    name: Annotated[str | None, typer.Argument(help="a mixer, to show it whole")] = None,
    family: Annotated[str | None, typer.Option(help="only this family, as extractors or state_space")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="with traits and the names of settings")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object, with everything")] = False,
    which: Annotated[bool, typer.Option("--backends", help="each op's backends, and what runs here")] = False,
    drawn: Annotated[bool, typer.Option("--patterns", help="which keys the queries look at, in letters")] = False,
) -> None:
    """The mixers, or one of them whole: equation, settings, traits, price, source."""
    if (which or drawn) and (name or family or wide or as_json or (which and drawn)):
        option = "--backends" if which else "--patterns"
        raise typer.BadParameter(f"{option} is a list of its own: give nothing else with it")
    if which:
        from seqloom.cli.environment import backends

        print(backends())
        return
    if drawn:
        from seqloom.cli.mixers import patterns

        print(patterns())
        return
    from seqloom.cli.mixers import listed, shown

    if name is not None and (family or wide):
        raise typer.BadParameter("--family and --wide need the whole list: leave out the mixer")
    print(listed(family, wide=wide, as_json=as_json) if name is None else shown(name, as_json=as_json))


def settings(
    path: Annotated[str | None, typer.Argument(help="as training, training.lr, she, or a part of a name")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Every setting of a run with type, bounds, default and meaning; or those of a path, a mixer or a name."""
    from seqloom.cli.settings import settings as shown

    print(shown(path, as_json=as_json))


def cost(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="a mixer, or a preset for its whole model; a mixer's fields are options")],
) -> None:
    """The price of a mixer: `seqloom cost attention --dim 128 --context 128 --heads 32 [--tokens T] [--per token]`.

    The equation in the paper's conventions next to the operations that its fast path executes. A preset prices its
    whole model, in training, prefill and for one more token; `--set` changes its settings. `seqloom cost --all --sort
    total` prices it with every mixer in turn.
    """
    from seqloom.cli.cost_request import requested

    request = requested(kind, context.args)
    from seqloom.cli.cost import price

    print(price(request))


def report(
    comparison: Annotated[Path, typer.Argument(help="the folder of a comparison: the --out of seqloom compare")],
) -> None:
    """Writes report.html of a comparison again, from the rows in its folder; needs no torch."""
    from seqloom.report.page import write

    print(f"the report is {write(comparison)}")


def distill(
    run: Run,
    order: Annotated[int, typer.Option(help="poles of each channel: complex numbers of its state")],
    out: Annotated[Path, typer.Option(help="the folder of the new run", parser=folder, metavar="PATH")],
    data: Annotated[
        str | None,
        typer.Option("--data", "--source", help="the text to predict; the held-out part of the run's own unless given"),
    ] = None,
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
) -> None:
    """Turns a run's taps (HE, WE, ME) into poles, so that it generates from a state of one size, and says the price."""
    from seqloom.cli.conversion import distilled

    print(distilled(run, order, out, data=data, batch=batch, step=step))


def arpa(
    run: Run,
    out: Annotated[Path, typer.Option(help="the file to be written")],
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
) -> None:
    """Writes the n-grams of a Kneser-Ney run as an ARPA file, tokens by their names in tokenizer.json."""
    from seqloom.cli.conversion import written_as_arpa

    print(written_as_arpa(run, out, step))


def demo(
    out: Annotated[Path, typer.Option(help="the folder for the runs", parser=folder, metavar="PATH")] = Path(
        "runs/demo"
    ),
    scale: Annotated[str, typer.Option(help="full: minutes; tiny: seconds, to see that it works")] = "full",
) -> int:
    """Trains five mixers on stories from a known grammar, compares them and prints the conclusion."""
    from seqloom.cli.demo import shown

    return shown(out, scale)


def runs(
    folder: Annotated[Path, typer.Argument(help="a folder with runs in it, as the --out of compare or of a study")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """The runs in a folder: state, batches, loss, time, and in what their settings differ."""
    from seqloom.cli.runs import listed

    print(listed(folder, as_json=as_json))


def doctor(
    run: Annotated[Path | None, typer.Argument(help="the folder of a run, whose files are checked instead")] = None,
) -> int:
    """What is installed and what runs here; or whether every file of a run is as it was written (exit 1 if not)."""
    if run is None:
        from seqloom.cli.environment import environment

        print(environment())
        return 0
    from seqloom.cli.run_health import checked

    lines, whole = checked(run)
    print(lines)
    return 0 if whole else 1


PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Models": (train, generate, evaluate),
    "Comparisons": (compare, bench, cost, verify),
    "Information": (report, list_mixers, settings, runs, doctor),
    "More": (distill, arpa, demo),
}
"""the commands as the help groups them"""
NAMES = {list_mixers: "list"}
studies = typer.Typer(
    no_args_is_help=True,
    help="Studies of many runs: recall, texts beyond the trained length, Markov chains, agents, early exits, "
    "the Extractor paper's figures, the board.",
)
studies.command()(recall)
studies.command()(extrapolate)
studies.command()(markov_gap)
studies.command()(agents)
studies.command()(maze)
studies.command()(calibrate)
studies.command()(exits)
studies.command()(thresholds)
studies.command()(paper)
studies.command()(board)

for _panel, _commands in PANELS.items():
    for _command in _commands:
        _settings = Options if _command is cost else None
        app.command(NAMES.get(_command), rich_help_panel=_panel, context_settings=_settings)(_command)
    if _panel == "Models":
        app.add_typer(knn, name="knn", rich_help_panel=_panel)
    if _panel == "More":
        app.add_typer(data, name="data", rich_help_panel=_panel)
    if _panel == "Comparisons":
        app.add_typer(studies, name="study", rich_help_panel=_panel)
