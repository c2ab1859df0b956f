"""The commands. Each imports what it needs when it runs, so that `--help` answers without loading torch."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from seqloom.cli.bench import bench
from seqloom.cli.compare import compare
from seqloom.cli.cost import cost
from seqloom.cli.data import data
from seqloom.cli.demo import demo
from seqloom.cli.distill import distill
from seqloom.cli.doctor import doctor
from seqloom.cli.evaluate import evaluate
from seqloom.cli.export import export
from seqloom.cli.generate import generate
from seqloom.cli.knn import knn
from seqloom.cli.list_mixers import list_mixers
from seqloom.cli.plan import plan
from seqloom.cli.play import play
from seqloom.cli.report import report
from seqloom.cli.runs import runs
from seqloom.cli.settings import settings
from seqloom.cli.study import studies
from seqloom.cli.swap import swap
from seqloom.cli.time_limit import time_limited
from seqloom.cli.tour import tour
from seqloom.cli.train import train
from seqloom.cli.verify import verify
from seqloom.cli.watch import watch

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
        from seqloom.cli.work.environment import versions

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


PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Models": (time_limited(train), generate, play, evaluate, swap, time_limited(distill)),
    "Comparisons": (time_limited(compare), bench, cost, plan, verify),
    "Information": (report, list_mixers, settings, runs, doctor),
    "More": (tour, demo),
}
"""the commands as the help groups them"""
NAMES = {list_mixers: "list"}

app.command(hidden=True)(watch)  # the help of `play` names it
for _panel, _commands in PANELS.items():
    for _command in _commands:
        _settings = Options if _command is cost else None
        app.command(NAMES.get(_command), rich_help_panel=_panel, context_settings=_settings)(_command)
    if _panel == "Models":
        app.add_typer(knn, name="knn", rich_help_panel=_panel)
        app.add_typer(export, name="export", rich_help_panel=_panel)
    if _panel == "More":
        app.add_typer(data, name="data", rich_help_panel=_panel)
    if _panel == "Comparisons":
        app.add_typer(studies, name="study", rich_help_panel=_panel)
