"""The commands. Each imports what it needs when it runs, so that `--help` answers without loading torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.compare import bench, compare
from seqloom.cli.data import data
from seqloom.cli.distill import distill
from seqloom.cli.export import export
from seqloom.cli.knn import knn
from seqloom.cli.options import folder
from seqloom.cli.report import report
from seqloom.cli.study import studies
from seqloom.cli.text import evaluate, generate
from seqloom.cli.time_limit import time_limited
from seqloom.cli.train import train
from seqloom.cli.verify import verify

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Can self-attention be replaced, with what, and at what price? Every command takes --debug "
    "(shows the traceback of an error) and --try-anyway (skips the check of available memory).",
)


def _version(given: bool) -> None:
    """Prints the versions and ends the program where `--version` is given."""
    if given:
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
        raise typer.BadParameter(f"torchrun starts {size()} processes, but only `seqloom train` runs in several")


Options = {"allow_extra_args": True, "ignore_unknown_options": True}


def list_mixers(
    name: Annotated[str | None, typer.Argument(help="a mixer, to show it with all its details")] = None,
    family: Annotated[str | None, typer.Option(help="only this family, e.g. extractors or state_space")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="add the traits and the names of the settings")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print everything as one JSON object")] = False,
    show_backends: Annotated[
        bool, typer.Option("--backends", help="the backends of each op, and which run on this machine")
    ] = False,
    show_patterns: Annotated[
        bool, typer.Option("--patterns", help="draw with letters which keys each query attends to")
    ] = False,
) -> None:
    """Lists the mixers, or shows one in full: equation, settings, traits, price, source."""
    if (show_backends or show_patterns) and (name or family or wide or as_json or (show_backends and show_patterns)):
        option = "--backends" if show_backends else "--patterns"
        raise typer.BadParameter(f"{option} prints a list of its own: it takes no mixer and no other option")
    if show_backends:
        from seqloom.cli.environment import backends

        print(backends())
        return
    if show_patterns:
        from seqloom.cli.mixers import patterns

        print(patterns())
        return
    from seqloom.cli.mixers import listed, shown

    if name is not None and (family or wide):
        raise typer.BadParameter("--family and --wide apply to the list of all mixers: leave out the mixer")
    print(listed(family, wide=wide, as_json=as_json) if name is None else shown(name, as_json=as_json))


def settings(
    path: Annotated[
        str | None,
        typer.Argument(help="a section, a setting, a mixer or part of a name: training, training.lr, she, warm"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Lists the settings of a run with type, bounds, default and meaning; all, or those of a section or a mixer."""
    from seqloom.cli.settings import settings as settings_text

    print(settings_text(path, as_json=as_json))


def cost(
    context: typer.Context,
    kind: Annotated[
        str, typer.Argument(help="a mixer, whose settings are options here; or a preset, for a whole model")
    ],
) -> None:
    """Counts operations and state: `seqloom cost attention --dim 128 --heads 32 [--tokens T] [--per token]`.

    Counts the equation by the paper's conventions, and the operations that the fast path executes. For a preset, counts
    the whole model in training, in prefill and for one more token; `--set` changes its settings. `seqloom cost --all
    --sort total` does so with every mixer in turn.
    """
    from seqloom.cli.cost_request import requested

    request = requested(kind, context.args)
    from seqloom.cli.cost import price

    print(price(request))


def demo(
    out: Annotated[Path, typer.Option(help="the folder for the runs", parser=folder, metavar="PATH")] = Path(
        "runs/demo"
    ),
    scale: Annotated[str, typer.Option(help="full takes minutes; tiny takes seconds, to check that it works")] = "full",
) -> int:
    """Trains five mixers on stories from a known grammar, compares them and prints the conclusion."""
    from seqloom.cli.demo import shown

    return shown(out, scale)


def runs(
    folder: Annotated[Path, typer.Argument(help="a folder that contains runs, e.g. the --out of compare")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Lists the runs in a folder: state, batches, loss, time, and the settings in which they differ."""
    from seqloom.cli.runs import listed

    print(listed(folder, as_json=as_json))


def doctor(
    run: Annotated[Path | None, typer.Argument(help="the folder of a run, to check its files instead")] = None,
) -> int:
    """Shows versions and available backends; or checks each file of a run against its digest (exit 1 if damaged)."""
    if run is None:
        from seqloom.cli.environment import environment

        print(environment())
        return 0
    from seqloom.cli.run_health import checked

    lines, undamaged = checked(run)
    print(lines)
    return 0 if undamaged else 1


PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Models": (time_limited(train), generate, evaluate),
    "Comparisons": (time_limited(compare), bench, cost, verify),
    "Information": (report, list_mixers, settings, runs, doctor),
    "More": (distill, demo),
}
"""the commands as the help groups them"""
NAMES = {list_mixers: "list"}

for _panel, _commands in PANELS.items():
    for _command in _commands:
        _settings = Options if _command in (cost, distill) else None
        _hidden = _command is distill
        app.command(NAMES.get(_command), rich_help_panel=_panel, context_settings=_settings, hidden=_hidden)(_command)
    if _panel == "Models":
        app.add_typer(knn, name="knn", rich_help_panel=_panel)
        app.add_typer(export, name="export", rich_help_panel=_panel)
    if _panel == "More":
        app.add_typer(data, name="data", rich_help_panel=_panel)
    if _panel == "Comparisons":
        app.add_typer(studies, name="study", rich_help_panel=_panel)
